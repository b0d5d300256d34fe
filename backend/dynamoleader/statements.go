package dynamoleader

import (
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// statement is a change of one item on a condition. In its texts attributes have the prefix #, so that none is taken for
// a word that DynamoDB reserves, and parameters the prefix :.
type statement struct {
	update    *string
	condition *string
	names     map[string]string
	params    []string
}

var (
	namePattern  = regexp.MustCompile(`#[a-z]+`)
	paramPattern = regexp.MustCompile(`:[a-z]+`)
)

func newStatement(update, condition string) *statement {
	return &statement{
		update:    aws.String(update),
		condition: aws.String(condition),
		names:     namesIn(update + " " + condition),
		params:    paramPattern.FindAllString(update+" "+condition, -1),
	}
}

// namesIn declares the attributes in an expression. DynamoDB refuses a declaration that is not used.
func namesIn(expression string) map[string]string {
	names := map[string]string{}
	for _, name := range namePattern.FindAllString(expression, -1) {
		names[name] = name[1:]
	}
	return names
}

// with picks the parameters of the statement. DynamoDB refuses one that is not used.
func (s *statement) with(all values) values {
	picked := make(values, len(s.params))
	for _, name := range s.params {
		picked[name] = all[name]
	}
	return picked
}

const (
	readable = "#format = :format AND #fence > :zero"
	// unspent holds for what never was released too.
	unspent = "(attribute_not_exists(#spent) OR #spent <> :token)"
	// unchanged is the condition that a lease is as it was seen.
	unchanged = readable + " AND #fence = :fence AND #lease > :zero AND #stamp = :seen AND " +
		"(#token = :holder OR attribute_not_exists(#token))"
	// ours holds while the token has the key, and afterwards until somebody else has it.
	ours = readable + " AND #fence = :fence AND (#token = :token OR #spent = :token)"

	setTerm = "#token = :token, #owner = :owner, #metadata = :metadata, #lease = :lease, #stamp = :stamp, " +
		"#since = :since, #renewed = :renewed, #expires = :expires"
	setEnd = "#lease = :lease, #stamp = :stamp, #renewed = :renewed, #expires = :expires"
)

var (
	// acquire takes a key that is free. The own token is no part of the condition, because a repeat must not raise the
	// fence.
	acquire = newStatement(
		"SET #format = :format, #key = :key, #fence = if_not_exists(#fence, :floor) + :one, "+setTerm,
		"attribute_not_exists(#name) OR "+readable+" AND #lease = :zero AND "+unspent)

	// takeOver takes a key whose lease was seen to expire.
	takeOver = newStatement("SET #fence = #fence + :one, "+setTerm, unchanged+" AND "+unspent)

	// renew moves the end of a lease whose last renewal is known.
	renew = newStatement("SET "+setEnd, readable+" AND #fence = :fence AND #token = :token AND #stamp = :seen")

	release = newStatement("SET #lease = :zero, #spent = :token REMOVE #token", ours)

	// lapse is the release of a lease that has expired, which leaves a key kept that was released in time.
	lapse = newStatement("SET #lease = :zero, #spent = :token REMOVE #token",
		readable+" AND #fence = :fence AND #token = :token")

	// keep leaves the key taken by nobody.
	keep = newStatement("SET #spent = :token, "+setEnd+" REMOVE #token", ours+" AND #lease > :zero")

	// keepOn moves the end of what is kept already.
	keepOn = newStatement("SET "+setEnd,
		readable+" AND #fence = :fence AND #spent = :token AND attribute_not_exists(#token) AND #lease > :zero")

	// spend frees the key if the token has it, and makes the token useless if the key is free.
	spend = newStatement(
		"SET #format = :format, #fence = if_not_exists(#fence, :floor), #lease = :zero, #spent = :token, "+
			"#expires = :expires REMOVE #token",
		"attribute_not_exists(#name) OR "+readable+" AND (#token = :token OR #lease = :zero)")

	// mark makes a token useless on a lease that was seen to expire.
	mark = newStatement("SET #spent = :token", unchanged)

	// breaking ends whatever lease there is under a fence.
	breaking = newStatement("SET #lease = :zero, #spent = if_not_exists(#token, #spent) REMOVE #token",
		readable+" AND #fence = :fence AND #lease > :zero")
)
