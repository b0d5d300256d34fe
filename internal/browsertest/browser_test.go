package browsertest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/goleader/leader/internal/testserver"
)

// watchdog is the longest that anything on a page is waited for.
const watchdog = 30 * time.Second

// browser is a tab that shows a page. Its methods are called by the goroutine of the test.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // it is how the library knows the tab

	mu       sync.Mutex
	problems []string // what went wrong in the page by itself
}

// look describes a screen.
type look struct {
	width, height int64
	dark          bool
	phone         bool
}

var (
	desktop = look{width: 1440, height: 900}
	phone   = look{width: 390, height: 844, phone: true}
)

// programs are the names of what can show the page.
var programs = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const text = `chromium is not installed: "make servers" does it on Debian and Ubuntu`
	list := strings.Split(strings.ToLower(os.Getenv(testserver.RequireEnv)), ",")
	if slices.Contains(list, "all") || slices.Contains(list, "chromium") {
		t.Fatal(text)
	}
	t.Skip(text)
	return ""
}

// open shows url in a browser of its own, which ends with the test.
func open(t *testing.T, url string, l look) *browser {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(findBrowser(t)),
		chromedp.NoSandbox, // which root does not get
		chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("lang", "en-GB"),
		chromedp.Env("TZ=UTC", "LANG=en_GB.UTF-8"),
		chromedp.WSURLReadTimeout(watchdog),
	)
	ctx, endProcess := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(endProcess)
	b := &browser{t: t}
	ctx, endTab := chromedp.NewContext(ctx, chromedp.WithListener(b.hear))
	t.Cleanup(endTab)
	b.ctx = ctx
	// The first call starts the browser, which lives as long as the context of that call.
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	b.emulate(l)
	run(b, chromedp.Navigate(url))
	return b
}

// emulate sets the screen and the scheme of colours.
func (b *browser) emulate(l look) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.phone,
	})
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// hear takes in what the page did by itself.
func (b *browser) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.note("exception: " + text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.note(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *page.EventJavascriptDialogOpening:
		b.note("dialog: " + e.Message)
	}
}

func (b *browser) note(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

// clean fails the test if anything went wrong in the page by itself, except what has to.
func (b *browser) clean(except ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		if !slices.ContainsFunc(except, func(part string) bool { return strings.Contains(p, part) }) {
			b.t.Errorf("the page says %s", p)
		}
	}
}

// run is an action in the page.
func run[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, watchdog)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// call is a command to the page's target.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, watchdog)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](b *browser, script string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](script))
}

// until waits for a condition in the page, and returns when it was first seen.
func (b *browser) until(what, condition string) time.Time {
	b.t.Helper()
	deadline := time.Now().Add(watchdog)
	for time.Now().Before(deadline) {
		if eval[bool](b, "Boolean("+condition+")") {
			return time.Now()
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.shot("watchdog")
	b.t.Fatalf("waited in vain for: %s\n%s", what, eval[string](b, "document.body.innerText.slice(0, 3000)"))
	return time.Time{}
}

// click clicks on the first element of a selector.
func (b *browser) click(selector string) {
	b.t.Helper()
	run(b, chromedp.Click(chromedp.CSS(selector)))
}

// shot keeps a picture of what the screen shows.
func (b *browser) shot(name string) []byte {
	b.t.Helper()
	picture := run(b, chromedp.CaptureScreenshot())
	path := filepath.Join(b.t.ArtifactDir(), name+".png")
	if err := os.WriteFile(path, picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("picture: %s", path)
	return picture
}
