package redisleader

import "strings"

// A key of the engine is a name, and behind it "#" and a slot or "!" and a record. In Redis the name stands in braces,
// the hash tag that keeps everything of one name on one node of a cluster; a brace in the name must not end it.
var (
	tagEscaper   = strings.NewReplacer(`\`, `\\`, `{`, `\(`, `}`, `\)`)
	tagUnescaper = strings.NewReplacer(`\\`, `\`, `\(`, `{`, `\)`, `}`)

	globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
)

// recordKey maps a key of the engine to the key of its record, which is also the name of the channel of its releases.
// The mapping is injective, and a name without braces and backslashes stays readable.
func (b *Backend) recordKey(key string) string {
	tag, rest := key, ""
	if i := strings.IndexAny(key, "#!"); i >= 0 {
		tag, rest = key[:i], key[i:]
	}
	return b.options.Prefix + "{" + tagEscaper.Replace(tag) + "}" + rest
}

// keyOf undoes recordKey. ok is false for what recordKey does not make.
func (b *Backend) keyOf(record string) (key string, ok bool) {
	tagged, ok := strings.CutPrefix(record, b.options.Prefix+"{")
	if !ok {
		return "", false
	}
	tag, rest, _ := strings.Cut(tagged, "}")
	key = tagUnescaper.Replace(tag) + rest
	return key, b.recordKey(key) == record
}

// pattern matches the record of every key that begins with prefix.
func (b *Backend) pattern(prefix string) string {
	record := b.recordKey(prefix)
	if !strings.ContainsAny(prefix, "#!") {
		record = strings.TrimSuffix(record, "}") // The name may go on.
	}
	return globEscaper.Replace(record) + "*"
}
