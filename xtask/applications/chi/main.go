// The shop in Go: the router chi with its middleware, sessions by scs, CORS by go-chi/cors,
// languages by x/text, files by net/http.
//
// The pages are those that ../README.md lists.
package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/cors"
	"golang.org/x/text/language"
)

var (
	sessions  = scs.New()
	lock      sync.Mutex
	tokens    = map[string]string{}
	notes     = map[string]map[string]string{}
	posts     []string
	languages = language.NewMatcher([]language.Tag{language.English, language.German, language.French})
	articles  = []string{"An article about pears. ", "Ein Artikel über Birnen. ", "Un article sur les poires. "}
)

func secret(name string) string {
	sum := sha256.Sum256([]byte("shop" + name))
	return "secret-" + hex.EncodeToString(sum[:])[:12]
}

// The time of a report follows from the name, so that all instances agree on it.
func written(name string) time.Time {
	seconds, _ := strconv.ParseInt(strings.TrimPrefix(secret(name), "secret-")[7:], 16, 64)
	return time.Unix(1_700_000_000+seconds, 0)
}

func random() string {
	return strings.ToLower(rand.Text())
}

func userName(r *http.Request) string { return sessions.GetString(r.Context(), "name") }

func list(r *http.Request, key string) []string {
	items, _ := sessions.Get(r.Context(), key).([]string)
	return items
}

func add(r *http.Request, key, item string) {
	sessions.Put(r.Context(), key, append(list(r, key), item))
}

func page(w http.ResponseWriter, r *http.Request, title string, lines []string, form string) {
	flashes := list(r, "flashes")
	if flashes != nil {
		sessions.Remove(r.Context(), "flashes")
	}
	token := sessions.GetString(r.Context(), "csrf")
	if form != "" && token == "" {
		token = random()
		sessions.Put(r.Context(), "csrf", token)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><title>%s</title><link rel=stylesheet href=/static/app.css>\n<h1>%s</h1>", title, title)
	for _, flash := range flashes {
		fmt.Fprintf(w, "<p class=flash>%s</p>", html.EscapeString(flash))
	}
	if name := userName(r); name != "" {
		fmt.Fprintf(w, "<p>Hello %s %s</p>", name, secret(name))
	} else {
		fmt.Fprint(w, "<p>Hello visitor</p>")
	}
	for _, line := range lines {
		fmt.Fprintf(w, "<li>%s</li>", html.EscapeString(line))
	}
	if form != "" {
		fmt.Fprintf(w, `<form method=post action=%s><input type=hidden name="csrf" value="%s"><input name=item></form>`, form, token)
	}
}

func checkToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := sessions.GetString(r.Context(), "csrf")
		if r.Method == http.MethodPost && (token == "" || r.PostFormValue("csrf") != token) {
			http.Error(w, "wrong token", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if userName(r) == "" {
			http.Redirect(w, r, "/login?next="+r.URL.EscapedPath(), http.StatusFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func login(w http.ResponseWriter, r *http.Request) {
	name, next := r.PostFormValue("name"), r.PostFormValue("next")
	if r.PostFormValue("password") != "pw-"+name {
		http.Error(w, "wrong password", http.StatusForbidden)
		return
	}
	_ = sessions.RenewToken(r.Context())
	sessions.Put(r.Context(), "name", name)
	sessions.Put(r.Context(), "csrf", random())
	add(r, "flashes", "Welcome "+name)
	text := strings.Repeat(fmt.Sprintf("The report of %s, %s.\n", name, secret(name)), 40)
	file := filepath.Join(os.Getenv("STATE"), name+".txt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = os.Chtimes(file, written(name), written(name))
	if next == "" {
		next = "/account"
	}
	http.Redirect(w, r, next, http.StatusFound)
}

func pages(r chi.Router) {
	r.Use(sessions.LoadAndSave, checkToken)
	show := func(path, title, form string) {
		r.Get(path, func(w http.ResponseWriter, r *http.Request) { page(w, r, title, nil, form) })
	}
	show("/", "Shop", "")
	show("/login", "Sign in", "/login")
	show("/board/new", "Write", "/board")
	r.Post("/login", login)
	r.Post("/logout", func(w http.ResponseWriter, r *http.Request) {
		_ = sessions.Destroy(r.Context())
		http.Redirect(w, r, "/", http.StatusFound)
	})
	account := signedIn(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page(w, r, "Account", []string{"Orders of " + userName(r)}, "/logout")
	}))
	r.Method(http.MethodGet, "/account", account)
	r.Method(http.MethodGet, "/account/*", account)
	r.Get("/cart", func(w http.ResponseWriter, r *http.Request) {
		page(w, r, "Cart", list(r, "cart"), "/cart")
	})
	r.Post("/cart", func(w http.ResponseWriter, r *http.Request) {
		add(r, "cart", r.PostFormValue("item"))
		add(r, "flashes", "Added "+r.PostFormValue("item"))
		http.Redirect(w, r, "/cart", http.StatusFound)
	})
	r.Get("/search", func(w http.ResponseWriter, r *http.Request) {
		page(w, r, "Search", []string{"No pears for " + r.URL.Query().Get("q")}, "")
	})
	r.Get("/widget", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, max-age=60")
		page(w, r, "Widget", nil, "")
	})
	r.Get("/slow", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(300 * time.Millisecond)
		page(w, r, "Slow", nil, "")
	})
	r.With(signedIn).Get("/files/report.txt", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(os.Getenv("STATE"), userName(r)+".txt"))
	})
	r.Get("/offers", func(w http.ResponseWriter, r *http.Request) {
		sessions.Put(r.Context(), "seen", time.Now().Unix())
		w.Header().Set("Cache-Control", "public, max-age=300")
		w.Header().Set("ETag", `"offers-v1"`)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		body := "<h1>Offers</h1>" + strings.Repeat("<p>Two pears for one.</p>", 80)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
	})
	r.Get("/go", func(w http.ResponseWriter, r *http.Request) {
		scheme := "http"
		if r.Header.Get("X-Forwarded-Proto") == "https" {
			scheme = "https"
		}
		http.Redirect(w, r, scheme+"://"+r.Host+"/account", http.StatusFound)
	})
	r.Post("/board", func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		posts = append(posts, r.PostFormValue("text"))
		http.Redirect(w, r, "/board", http.StatusFound)
	})
}

// Pages for all, without sessions.
func publicPages(r chi.Router) {
	public := func(seconds int) func(http.Handler) http.Handler {
		return middleware.SetHeader("Cache-Control", fmt.Sprintf("public, max-age=%d", seconds))
	}
	files := http.StripPrefix("/static/", http.FileServer(http.Dir("static")))
	r.With(public(3600)).Method(http.MethodGet, "/static/*", files)
	r.With(public(60)).Get("/news", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<h1>News</h1>"+strings.Repeat("<p>Pears are ripe.</p>", 80))
	})
	r.With(public(30)).Get("/board", func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		for _, text := range posts {
			fmt.Fprintf(w, "<li>%s</li>", html.EscapeString(text))
		}
	})
	r.Get("/article/{number}", func(w http.ResponseWriter, r *http.Request) {
		tag, index := language.MatchStrings(languages, r.Header.Get("Accept-Language"))
		base, _ := tag.Base()
		w.Header().Add("Vary", "Accept-Language")
		w.Header().Set("Content-Language", base.String())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("ETag", `"article-`+chi.URLParam(r, "number")+`-v7"`)
		if chi.URLParam(r, "number") == "2" {
			w.Header().Set("Cache-Control", "public, max-age=300")
		}
		body := strings.Repeat(articles[index], 60)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
	})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// Wraps a handler of the interface, which is called with the lock held and the account's name.
func authorized(field string, then func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		name := tokens[strings.TrimPrefix(r.Header.Get(field), "Bearer ")]
		if name == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, map[string]string{"error": "not signed in"})
			return
		}
		if notes[name] == nil {
			notes[name] = map[string]string{}
		}
		then(w, r, name)
	}
}

func sentText(r *http.Request) string {
	var sent struct{ Text string }
	_ = json.NewDecoder(r.Body).Decode(&sent)
	return sent.Text
}

func note(w http.ResponseWriter, r *http.Request, name string) {
	number := chi.URLParam(r, "number")
	if _, known := notes[name][number]; !known {
		answer(w, http.StatusNotFound, map[string]string{"error": "no such note"})
		return
	}
	switch r.Method {
	case http.MethodPut:
		notes[name][number] = sentText(r)
	case http.MethodDelete:
		delete(notes[name], number)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, http.StatusOK, map[string]string{"owner": name, "text": notes[name][number]})
}

func api(r chi.Router) {
	r.Post("/token", func(w http.ResponseWriter, r *http.Request) {
		var sent struct{ Name, Password string }
		_ = json.NewDecoder(r.Body).Decode(&sent)
		if sent.Password != "pw-"+sent.Name {
			answer(w, http.StatusForbidden, map[string]string{"error": "wrong password"})
			return
		}
		lock.Lock()
		defer lock.Unlock()
		token, key := "token-"+random(), "key-"+random()
		tokens[token], tokens[key] = sent.Name, sent.Name
		answer(w, http.StatusOK, map[string]string{"token": token, "key": key})
	})
	r.Get("/me", authorized("Authorization", func(w http.ResponseWriter, _ *http.Request, name string) {
		answer(w, http.StatusOK, map[string]string{"name": name, "secret": secret(name)})
	}))
	r.Get("/usage", authorized("X-API-Key", func(w http.ResponseWriter, _ *http.Request, name string) {
		answer(w, http.StatusOK, map[string]string{"name": name, "plan": "free", "secret": secret(name)})
	}))
	r.Get("/notes", authorized("Authorization", func(w http.ResponseWriter, _ *http.Request, name string) {
		answer(w, http.StatusOK, map[string]any{"owner": name, "notes": notes[name]})
	}))
	r.Post("/notes", authorized("Authorization", func(w http.ResponseWriter, r *http.Request, name string) {
		number := strconv.Itoa(len(notes[name]) + 1)
		notes[name][number] = sentText(r)
		w.Header().Set("Location", "/api/notes/"+number)
		answer(w, http.StatusCreated, map[string]string{"number": number})
	}))
	r.HandleFunc("/notes/{number}", authorized("Authorization", note))
	origins := cors.Handler(cors.Options{AllowedOrigins: []string{"https://*.example"}})
	r.With(origins).Get("/public", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
		answer(w, http.StatusOK, map[string]any{"pears": make([]int, 400)})
	})
}

func main() {
	r := chi.NewRouter()
	r.Use(middleware.Compress(5), middleware.GetHead)
	r.Group(publicPages)
	r.Route("/api", api)
	r.Group(pages)
	if err := http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), r); err != nil {
		panic(err)
	}
}
