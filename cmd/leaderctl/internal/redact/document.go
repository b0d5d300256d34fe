package redact

import (
	"reflect"
	"slices"
	"strings"
)

// Document is a copy of v, which is to be written as JSON, without the secrets in its texts. Keys of maps, numbers, instants
// and texts of fields whose JSON names are in plain stay as they are, so that programs can rely on them.
func (s *Secrets) Document(v any, plain ...string) any {
	if v == nil {
		return nil
	}
	return s.copyOf(reflect.ValueOf(v), plain).Interface()
}

func (s *Secrets) copyOf(v reflect.Value, plain []string) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	s.clean(c, plain)
	return c
}

// clean takes the secrets out of v, which can be set, and puts copies in the place of what v shares with others.
func (s *Secrets) clean(v reflect.Value, plain []string) {
	switch v.Kind() { //nolint:exhaustive // the others have no texts
	case reflect.String:
		v.SetString(s.Text(v.String()))
	case reflect.Struct:
		s.cleanFields(v, plain)
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(s.copyOf(v.Elem(), plain))
			v.Set(c)
		}
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(s.copyOf(v.Elem(), plain))
		}
	case reflect.Slice:
		if !v.IsNil() {
			v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
			s.cleanElements(v, plain)
		}
	case reflect.Array:
		s.cleanElements(v, plain)
	case reflect.Map:
		s.cleanMap(v, plain)
	}
}

func (s *Secrets) cleanElements(v reflect.Value, plain []string) {
	for i := range v.Len() {
		s.clean(v.Index(i), plain)
	}
}

// cleanFields leaves out what JSON does not show.
func (s *Secrets) cleanFields(v reflect.Value, plain []string) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		shown := field.IsExported() || field.Anonymous && field.Type.Kind() == reflect.Struct
		if shown && !slices.Contains(plain, name) {
			s.clean(v.Field(i), plain)
		}
	}
}

func (s *Secrets) cleanMap(v reflect.Value, plain []string) {
	if v.IsNil() {
		return
	}
	c := reflect.MakeMapWithSize(v.Type(), v.Len())
	for _, key := range v.MapKeys() {
		c.SetMapIndex(key, s.copyOf(v.MapIndex(key), plain))
	}
	v.Set(c)
}
