package zkleader

import (
	"context"
	"fmt"
	"time"
)

// Advise warns if the server has granted another session timeout than was asked for.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	s, err := b.session(ctx)
	if err != nil {
		return nil, classify(ctx, b.options.Root, err)
	}
	asked, granted := b.options.SessionTimeout, time.Duration(s.granted.Load())*time.Millisecond
	switch {
	case granted < asked:
		return []string{fmt.Sprintf("the server grants a session timeout of %v instead of %v: a longer silence costs "+
			"a lease although its time has not passed; raise maxSessionTimeout or use a shorter lease", granted, asked)}, nil
	case granted > asked:
		return []string{fmt.Sprintf("the server grants a session timeout of %v instead of %v: a process that died is "+
			"replaced that late; lower minSessionTimeout (two ticks unless set) or use a longer lease", granted, asked)}, nil
	}
	return nil, nil
}
