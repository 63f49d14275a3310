module shop

go 1.24

require (
	github.com/alexedwards/scs/v2 v2.9.0
	github.com/go-chi/chi/v5 v5.5.0
	github.com/go-chi/cors v1.2.2
	golang.org/x/text v0.24.0
)
