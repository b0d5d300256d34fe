package leader

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goleader/leader/backend"
)

// Wrap declares a job: it returns action as a function that runs it where this node is elected, by RunIfLeader on r with
// that name. The options of a call come after those given here. An error says that r would refuse the name or the
// options, see [Check], so that a wrong declaration shows itself when the program starts. The function may be called
// concurrently.
func Wrap(
	r Runner, name string, action Action, opts ...RunOption,
) (func(ctx context.Context, opts ...RunOption) (RunResult, error), error) {
	opts = slices.Clone(opts)
	err := Check(r, name, opts...)
	if action == nil {
		err = errors.Join(err, fmt.Errorf("%w: the action is nil", ErrInvalidOption))
	}
	if err != nil {
		return nil, inv(fmt.Sprintf("wrap %q", name), err)
	}
	return func(ctx context.Context, more ...RunOption) (RunResult, error) {
		return r.RunIfLeader(ctx, name, action, joined(opts, more)...)
	}, nil
}

// WrapFor is [Wrap] for an action with an argument, which is part of the name: in "process-{region}" the field Region of
// the argument takes the place of {region}. A placeholder means the field with that word in its tag (`leader:"region"`),
// or else the field whose name is that word, whatever the case. If the argument has no exported fields and is a text or
// number itself, it takes the place of the only placeholder, whatever that is called. Texts are strings, whole numbers,
// bools, and what has a method MarshalText or String.
//
// Different arguments never share a name by accident. Refused at once are a template without placeholders, one with two
// of them side by side, and fields that the argument lacks; refused by a call, before anything runs, are an empty value,
// and one that contains the text that separates it from the next placeholder. The errors wrap [ErrInvalidName].
func WrapFor[T any](
	r Runner, template string, action func(ctx context.Context, arg T) error, opts ...RunOption,
) (func(ctx context.Context, arg T, opts ...RunOption) (RunResult, error), error) {
	opts = slices.Clone(opts)
	t, err := parseTemplate(template, reflect.TypeFor[T]())
	if err == nil {
		err = Check(r, t.sample(), opts...)
	}
	if action == nil {
		err = errors.Join(err, fmt.Errorf("%w: the action is nil", ErrInvalidOption))
	}
	if err != nil {
		return nil, inv(fmt.Sprintf("wrap %q", template), err)
	}
	return func(ctx context.Context, arg T, more ...RunOption) (RunResult, error) {
		name, err := t.name(reflect.ValueOf(&arg).Elem())
		if err != nil {
			return RunResult{}, inv(fmt.Sprintf("run %q", template), err)
		}
		return r.RunIfLeader(ctx, name, func(ctx context.Context) error { return action(ctx, arg) }, joined(opts, more)...)
	}, nil
}

// joined keeps concurrent calls from sharing the rest of a slice.
func joined(opts, more []RunOption) []RunOption {
	return append(slices.Clip(opts), more...)
}

// Check reports everything that RunIfLeader of r would refuse of a name and options, without a run, hooks or I/O. Of a
// Runner from elsewhere it knows neither defaults nor backend, and checks what can be said without them.
func Check(r Runner, name string, opts ...RunOption) error {
	var e *engine
	switch r := r.(type) {
	case nil:
		return fmt.Errorf("%w: the runner is nil", ErrInvalidOption)
	case *Single:
		e = r.e
	case *Group:
		e = r.e
	case *Strategic:
		e = r.e
	}
	if e != nil {
		_, err := e.newCall(opRun, name, func(context.Context) error { return nil }, opts)
		return err
	}
	plain := config{lease: defaultLease}
	_, err := plain.forCall(opRun, backend.Limits{}, opts)
	if err = errors.Join(checkName("name", name), err); err != nil {
		return inv("call", err)
	}
	return nil
}

// template is a name with places for values: literals[0], values[0], literals[1], and so on.
type template struct {
	literals []string
	values   []placeholder
}

// placeholder is where the value of a field goes. The path is nil if the argument itself is the value.
type placeholder struct {
	word string
	path []int
}

// parseTemplate reads a template, and reports everything that is wrong with it for arguments of a type.
func parseTemplate(text string, arg reflect.Type) (template, error) {
	var t template
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalidName}, args...)...))
	}
	rest := text
	for {
		literal, after, opened := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			refuse("a } without a {")
		}
		if literal == "" && len(t.values) > 0 && opened {
			refuse("two placeholders side by side: different arguments could share a name")
		}
		t.literals = append(t.literals, literal)
		if !opened {
			break
		}
		word, next, closed := strings.Cut(after, "}")
		if !closed || strings.Contains(word, "{") {
			refuse("a { without a }")
			break
		}
		path, err := fieldOf(arg, word)
		if err != nil {
			refuse("%w", err)
		}
		t.values = append(t.values, placeholder{word, path})
		rest = next
	}
	if len(t.values) == 0 && errs == nil {
		refuse("no placeholder: all arguments would share one name")
	}
	if len(t.values) > 1 && isText(arg) {
		refuse("several placeholders for one value")
	}
	return t, errors.Join(errs...)
}

// sample is a name as the template makes it, for checks.
func (t template) sample() string { return strings.Join(t.literals, "x") }

// name puts the values of an argument into their places.
func (t template) name(arg reflect.Value) (string, error) {
	var name strings.Builder
	var errs []error
	name.WriteString(t.literals[0])
	for i, p := range t.values {
		value, err := p.text(arg)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: {%s}: %w", ErrInvalidName, p.word, err))
			continue
		}
		next := t.literals[i+1]
		if i+1 < len(t.values) && strings.Index(value+next, next) != len(value) {
			errs = append(errs, fmt.Errorf("%w: {%s} %q runs into the %q that separates it from the next value: "+
				"different arguments could share a name", ErrInvalidName, p.word, value, next))
		}
		name.WriteString(value)
		name.WriteString(next)
	}
	return name.String(), errors.Join(errs...)
}

// fieldOf finds the field that a placeholder means.
func fieldOf(arg reflect.Type, word string) (path []int, err error) {
	if isText(arg) {
		return nil, nil
	}
	if arg.Kind() == reflect.Pointer {
		arg = arg.Elem()
	}
	if arg.Kind() != reflect.Struct {
		return nil, fmt.Errorf("{%s}: an argument of type %v has no fields", word, arg)
	}
	var tagged, named []reflect.StructField
	for _, f := range reflect.VisibleFields(arg) {
		tag, has := f.Tag.Lookup("leader")
		switch {
		case !f.IsExported():
		case has && tag == word:
			tagged = append(tagged, f)
		case !has && strings.EqualFold(f.Name, word):
			named = append(named, f)
		}
	}
	if tagged != nil {
		named = tagged
	}
	switch {
	case word == "" || len(named) == 0:
		return nil, fmt.Errorf("{%s}: %v has no such field", word, arg)
	case len(named) > 1:
		return nil, fmt.Errorf("{%s}: %v has %d such fields", word, arg, len(named))
	case !asText(named[0].Type):
		return nil, fmt.Errorf("{%s}: a %v is no text", word, named[0].Type)
	}
	return named[0].Index, nil
}

// isText reports whether an argument of a type is a value itself. A text that has fields, one that prints itself for
// people, say, is not: its placeholders mean the fields.
func isText(arg reflect.Type) bool {
	plain := arg
	if plain.Kind() == reflect.Pointer {
		plain = plain.Elem()
	}
	if plain.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(plain), reflect.StructField.IsExported) {
		return false
	}
	return asText(arg)
}

// asText reports whether values of a type may be part of a name.
func asText(t reflect.Type) bool {
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || t.Implements(reflect.TypeFor[fmt.Stringer]()) {
		return true
	}
	if t.Kind() == reflect.Pointer {
		return t.Elem().Kind() != reflect.Pointer && asText(t.Elem())
	}
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Uint64 || t.Kind() == reflect.String
}

var errEmpty = errors.New("the value is empty")

// text is the value in an argument.
func (p placeholder) text(arg reflect.Value) (string, error) {
	v := arg
	if p.path != nil {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		var err error
		if !v.IsValid() {
			return "", errEmpty
		}
		if v, err = v.FieldByIndexErr(p.path); err != nil {
			return "", errEmpty // an embedded pointer is nil
		}
	}
	if k := v.Kind(); (k == reflect.Pointer || k == reflect.Interface) && v.IsNil() {
		return "", errEmpty
	}
	text, err := textOf(v)
	if err == nil && text == "" {
		err = errEmpty
	}
	return text, err
}

func textOf(v reflect.Value) (string, error) {
	switch value := v.Interface().(type) {
	case encoding.TextMarshaler:
		text, err := value.MarshalText()
		return string(text), err
	case fmt.Stringer:
		return value.String(), nil
	}
	switch {
	case v.Kind() == reflect.Pointer:
		return textOf(v.Elem())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	}
	return v.String(), nil
}
