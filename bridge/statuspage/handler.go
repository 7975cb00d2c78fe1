package statuspage

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/bridge"
)

//go:embed page.html page.css
var files embed.FS

// refresh is how often the page loads itself again, in seconds.
const refresh = 5

// Handler shows bridges; see the package's documentation for its paths. It may be mounted anywhere with http.StripPrefix, and used from
// any goroutine, before, during and after Run.
func Handler(b ...*bridge.Bridge) http.Handler {
	bridges := slices.DeleteFunc(slices.Clone(b), func(b *bridge.Bridge) bool { return b == nil })
	return newHandler(func() Report { return reportOf(time.Now(), bridges) })
}

func newHandler(look func() Report) http.Handler {
	style, err := files.ReadFile("page.css")
	if err != nil {
		panic(err) // the file is in the binary, as the page is
	}
	h := &handler{look: look, style: template.CSS(style),
		page: template.Must(template.New("page.html").Funcs(functions()).ParseFS(files, "page.html"))}
	sum := sha256.Sum256(style)
	h.policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return h
}

type handler struct {
	look   func() Report
	page   *template.Template
	style  template.CSS
	policy string // nothing but the one stylesheet, whose hash it names
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Security-Policy", h.policy)
	head.Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD: nothing can be changed here", http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path {
	case "", "/":
		head.Set("Vary", "Accept")
		if wantsJSON(r.Header.Values("Accept")) {
			h.json(w, r)
		} else {
			h.html(w, r)
		}
	case "/status.json":
		h.json(w, r)
	case "/healthz":
		h.health(w, r)
	default:
		http.Error(w, "there are /, /status.json and /healthz", http.StatusNotFound)
	}
}

func (h *handler) json(w http.ResponseWriter, r *http.Request) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	if err := e.Encode(h.look()); err != nil {
		http.Error(w, "the status cannot be encoded", http.StatusInternalServerError)
		return
	}
	send(w, r, http.StatusOK, "application/json", out.Bytes())
}

func (h *handler) html(w http.ResponseWriter, r *http.Request) {
	page := struct {
		Report
		Style   template.CSS
		Refresh int
	}{h.look(), h.style, refresh}
	if r.URL.Query().Get("refresh") == "off" {
		page.Refresh = 0
	}
	// Into memory first: half a page with status 200 would look like the whole.
	var out bytes.Buffer
	if err := h.page.Execute(&out, page); err != nil {
		http.Error(w, "the page cannot be shown; /status.json holds the same", http.StatusInternalServerError)
		return
	}
	send(w, r, http.StatusOK, "text/html; charset=utf-8", out.Bytes())
}

func (h *handler) health(w http.ResponseWriter, r *http.Request) {
	report := h.look()
	if report.Healthy {
		send(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
		return
	}
	var out bytes.Buffer
	for _, b := range report.Bridges {
		if !b.Healthy {
			fmt.Fprintf(&out, "bridge %q: %s\n", b.Name, b.Reason)
		}
	}
	send(w, r, http.StatusServiceUnavailable, "text/plain; charset=utf-8", out.Bytes())
}

func send(w http.ResponseWriter, r *http.Request, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client is gone, and nobody is left to tell
	}
}

// wantsJSON reports whether an Accept header asks for JSON by name and does not prefer HTML: whoever accepts anything gets the page.
func wantsJSON(accept []string) bool {
	asJSON, asHTML := 0.0, 0.0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if s, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(s, 64); err != nil {
				continue
			}
		}
		switch kind {
		case "application/json":
			asJSON = max(asJSON, q)
		case "text/html":
			asHTML = max(asHTML, q)
		}
	}
	return asJSON > asHTML
}
