package status

import (
	"embed"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

//go:embed web
var web embed.FS

// assets are the files of the page, by what follows its path, with their types.
var assets = map[string]string{
	"":           "text/html; charset=utf-8",
	"style.css":  "text/css; charset=utf-8",
	"page.js":    "text/javascript; charset=utf-8",
	"rows.js":    "text/javascript; charset=utf-8",
	"events.js":  "text/javascript; charset=utf-8",
	"text.js":    "text/javascript; charset=utf-8",
	"release.js": "text/javascript; charset=utf-8",
	"icon.svg":   "image/svg+xml",
}

// policy lets the page use nothing but its own files, and no script make markup of a text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP serves the JSON and the page, and nothing else. Its answers are not for caches.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	rest, ok := strings.CutPrefix(r.URL.Path, p.options.Path)
	if rest == "" && ok {
		only(p.snapshot, http.MethodGet, http.MethodHead)(w, r)
		return
	}
	file, below := strings.CutPrefix(rest, "/")
	_, isAsset := assets[file]
	switch {
	case !ok || !below:
		http.NotFound(w, r)
	case isAsset:
		only(asset(file), http.MethodGet, http.MethodHead)(w, r)
	case file == "events":
		only(p.stream, http.MethodGet)(w, r)
	case file == "release" && p.breaker != nil:
		only(p.release, http.MethodPost)(w, r)
	default:
		http.NotFound(w, r)
	}
}

func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// only refuses methods that are not among those given.
func only(f http.HandlerFunc, methods ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(methods, r.Method) {
			f(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

func asset(file string) http.HandlerFunc {
	name := "web/" + file
	if file == "" {
		name = "web/index.html"
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := web.ReadFile(name)
		if err != nil {
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", assets[file])
		_, _ = w.Write(text) //nolint:gosec // a file of this package; the browser has gone if it fails
	}
}

// snapshot answers programs, and sends browsers to the page.
func (p *Page) snapshot(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		// Relative, and so right also where a proxy strips what comes before.
		w.Header().Set("Location", (&url.URL{Path: path.Base(p.options.Path) + "/"}).String())
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	p.mu.Lock()
	fresh := p.board.fresh(time.Now(), p.options.Interval)
	p.mu.Unlock()
	if !fresh {
		p.refreshAll(r.Context())
	}
	p.mu.Lock()
	s := p.full(time.Now())
	p.mu.Unlock()
	s.Full = false
	code := http.StatusOK
	if s.Asked == nil {
		code = http.StatusServiceUnavailable
	}
	reply(w, code, s)
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client has gone if it fails
}
