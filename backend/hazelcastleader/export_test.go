package hazelcastleader

// GeneratorName is the name of the Flake id generator by which the clock is read.
const GeneratorName = generatorName

// ShareAttempts makes two backends one, for attempts on groups, which then has two connections.
func ShareAttempts(a, b *Backend) { b.attempts = a.attempts }
