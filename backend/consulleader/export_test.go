package consulleader

// What tests outside the package need of its inside.
const (
	MinTTL    = minTTL
	MaxTTL    = maxTTL
	Reuse     = reuse
	LossDelay = lossDelay
)

// StoreKey is the key in Consul of a lease or a record.
func StoreKey(prefix, key string) string {
	b := New(nil, &Options{Prefix: prefix})
	if record, err := b.recordKey(key); err == nil {
		return record
	}
	return b.storeKey(key)
}
