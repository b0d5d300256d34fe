package redisleader

import "strings"

// A key of the engine is a name, and behind it "#" and a slot or "!" and a record. In Redis the name stands in braces,
// the hash tag that keeps everything of one name on one node of a cluster; a brace in the name must not end it.
var tagEscaper = strings.NewReplacer(`\`, `\\`, `{`, `\(`, `}`, `\)`)

// recordKey maps a key of the engine to the key of its record, which is also the name of the channel of its releases.
// The mapping is injective, and a name without braces and backslashes stays readable.
func (b *Backend) recordKey(key string) string {
	tag, rest := key, ""
	if i := strings.IndexAny(key, "#!"); i >= 0 {
		tag, rest = key[:i], key[i:]
	}
	return b.options.Prefix + "{" + tagEscaper.Replace(tag) + "}" + rest
}
