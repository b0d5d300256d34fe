// Package testserver starts real servers for tests, benchmarks and examples: each is a child process on a free
// loopback port, with a data folder of its own, and ends with the test. Servers that already run are never touched.
//
// A test takes one line:
//
//	redis := testserver.Redis(t)
//
// Where the program is not installed the test is skipped with the command that installs it. [RequireEnv] names the
// servers that must not be missing; a test that needs one of those fails instead. A URL in the environment, such as
// [RedisURLEnv], takes the place of the child process; what such a server cannot do ([Server.Owned]) is skipped.
//
// [Server.Kill9], [Server.Restart], [Server.Stop] and [Server.Cont] are faults of the server. Faults of one client's
// connection come from package backendtest/netfault.
package testserver
