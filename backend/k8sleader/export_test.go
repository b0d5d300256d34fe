package k8sleader

// ObjectName is for tests in package k8sleader_test.
func ObjectName(key string) string { return objectName(key) }
