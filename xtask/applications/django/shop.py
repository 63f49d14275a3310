"""The shop in Django: sessions, accounts, CSRF tokens, messages, languages, conditional requests.

The pages are those that ../README.md lists. Everything is done by Django's own means: middleware in
the documented order, `login_required`, `cache_control`, `condition`, `static.serve`; WhiteNoise
serves the static files.
"""
import hashlib, json, os, secrets, time
from pathlib import Path

import django
from django.conf import settings

HERE, STATE = Path(__file__).parent, Path(os.environ["STATE"])
settings.configure(
    SECRET_KEY=secrets.token_hex(),
    ALLOWED_HOSTS=["shop.example"],
    ROOT_URLCONF=__name__,
    SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth",
                    "django.contrib.sessions", "django.contrib.messages"],
    MIDDLEWARE=["django.middleware.security.SecurityMiddleware",
                "whitenoise.middleware.WhiteNoiseMiddleware",
                "django.middleware.gzip.GZipMiddleware",
                "django.middleware.http.ConditionalGetMiddleware",
                "django.contrib.sessions.middleware.SessionMiddleware",
                "django.middleware.locale.LocaleMiddleware",
                "django.middleware.common.CommonMiddleware",
                "django.middleware.csrf.CsrfViewMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": STATE / "shop.sqlite3",
                           "OPTIONS": {"timeout": 30}}},
    CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache",
                        "OPTIONS": {"MAX_ENTRIES": 100_000}}},
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    LANGUAGES=[("en", "English"), ("de", "Deutsch"), ("fr", "Français")], LANGUAGE_CODE="en",
    STATIC_URL="/static/", STATIC_ROOT=HERE / "static", WHITENOISE_MAX_AGE=3600,
    LOGIN_URL="/login", DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)
django.setup()

from django.contrib import auth, messages
from django.contrib.auth.decorators import login_required
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template import RequestContext, Template
from django.urls import path, re_path
from django.utils.cache import patch_vary_headers
from django.utils.translation import get_language
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import condition
from django.views.static import serve

call_command("migrate", verbosity=0)
PAGE = Template("""<!doctype html><title>{{ title }}</title>
<link rel=stylesheet href=/static/app.css>
<h1>{{ title }}</h1>{% for m in flashes %}<p class=flash>{{ m }}</p>{% endfor %}
<p>Hello {{ who }}</p>{% for line in lines %}<li>{{ line }}</li>{% endfor %}
{% if form %}<form method=post action={{ form }}>{% csrf_token %}<input name=item></form>{% endif %}
""")
ARTICLES = {"en": "An article about pears. ", "de": "Ein Artikel über Birnen. ",
            "fr": "Un article sur les poires. "}
tokens, notes, posts = {}, {}, []


def secret(name):
    return "secret-" + hashlib.sha256(("shop" + name).encode()).hexdigest()[:12]


def written(name):
    "The time of a report follows from the name, so that all instances agree on it."
    return 1_700_000_000 + int(secret(name)[-5:], 16)


def page(request, title, lines=(), form=""):
    user = request.user
    who = f"{user.username} {secret(user.username)}" if user.is_authenticated else "visitor"
    flashes = [str(m) for m in messages.get_messages(request)]
    return HttpResponse(PAGE.render(RequestContext(request, {
        "title": title, "who": who, "lines": lines, "form": form, "flashes": flashes})))


def home(request):
    return page(request, "Shop")


def login(request):
    if request.method == "GET":
        return page(request, "Sign in", form="/login")
    name = request.POST["name"]
    if not auth.models.User.objects.filter(username=name).exists():
        auth.models.User.objects.create_user(name, password="pw-" + name)
    user = auth.authenticate(request, username=name, password=request.POST["password"])
    if user is None:
        return HttpResponse("wrong password", status=403)
    auth.login(request, user)
    report = STATE / f"{name}.txt"
    report.write_text(f"The report of {name}, {secret(name)}.\n" * 40)
    os.utime(report, (written(name), written(name)))
    messages.info(request, f"Welcome {name}")
    return redirect(request.POST.get("next") or "/account")


def logout(request):
    auth.logout(request)
    return redirect("/")


@login_required
def account(request):
    return page(request, "Account", [f"Orders of {request.user.username}"], form="/logout")


def cart(request):
    items = request.session.get("cart", [])
    if request.method == "POST":
        request.session["cart"] = items + [request.POST["item"]]
        messages.info(request, "Added " + request.POST["item"])
        return redirect("/cart")
    return page(request, "Cart", items, form="/cart")


def search(request):
    return page(request, "Search", [f"No pears for {request.GET.get('q', '')}"])


@cache_control(private=True, max_age=60)
def widget(request):
    return page(request, "Widget")


def slow(request):
    time.sleep(0.3)
    return page(request, "Slow")


@login_required
def report(request):
    return serve(request, request.user.username + ".txt", document_root=STATE)


@cache_control(public=True, max_age=60)
def news(request):
    return HttpResponse("<h1>News</h1>" + "<p>Pears are ripe.</p>" * 40)


@condition(etag_func=lambda request, number: f'"article-{number}-v7"')
def article(request, number):
    response = HttpResponse(ARTICLES[get_language()] * 40)
    if number == 2:
        response["Cache-Control"] = "public, max-age=300"
    return response


@cache_control(public=True, max_age=300)
@condition(etag_func=lambda request: '"offers-v1"')
def offers(request):
    request.session["seen"] = True
    return HttpResponse("<h1>Offers</h1>" + "<p>Two pears for one.</p>" * 40)


@cache_control(public=True, max_age=30)
def board(request):
    if request.method == "POST":
        posts.append(request.POST["text"])
        return redirect("/board")
    return HttpResponse("".join(f"<li>{text}</li>" for text in posts))


def compose(request):
    return page(request, "Write", form="/board")


def go(request):
    return redirect(request.build_absolute_uri("/account"))


@csrf_exempt
def api_token(request):
    name, password = (json.loads(request.body)[k] for k in ("name", "password"))
    if password != "pw-" + name:
        return JsonResponse({"error": "wrong password"}, status=403)
    token, key = "token-" + secrets.token_hex(16), "key-" + secrets.token_hex(16)
    tokens[token] = tokens[key] = name
    return JsonResponse({"token": token, "key": key})


def api(field, prefix):
    "Decorates a view of the interface, which is given the name of the account."
    def decorate(view):
        def wrapped(request, *words):
            name = tokens.get(request.headers.get(field, "").removeprefix(prefix))
            if name is None:
                return JsonResponse({"error": "not signed in"}, status=401,
                                    headers={"WWW-Authenticate": "Bearer"})
            return view(request, name, *words)
        return csrf_exempt(wrapped)
    return decorate


@api("Authorization", "Bearer ")
def api_me(request, name):
    return JsonResponse({"name": name, "secret": secret(name)})


@api("X-API-Key", "")
def api_usage(request, name):
    return JsonResponse({"name": name, "plan": "free", "secret": secret(name)})


@api("Authorization", "Bearer ")
def api_notes(request, name, number=None):
    mine = notes.setdefault(name, {})
    if request.method == "POST":
        number = str(len(mine) + 1)
        mine[number] = json.loads(request.body)["text"]
        return JsonResponse({"number": number}, status=201,
                            headers={"Location": "/api/notes/" + number})
    if number is None:
        return JsonResponse({"owner": name, "notes": mine})
    if number not in mine:
        return JsonResponse({"error": "no such note"}, status=404)
    if request.method == "PUT":
        mine[number] = json.loads(request.body)["text"]
    if request.method == "DELETE":
        del mine[number]
        return HttpResponse(status=204)
    return JsonResponse({"owner": name, "text": mine[number]})


@cache_control(public=True, max_age=60)
def api_public(request):
    response = JsonResponse({"pears": list(range(60))})
    if "Origin" in request.headers:
        response["Access-Control-Allow-Origin"] = request.headers["Origin"]
    patch_vary_headers(response, ["Origin"])
    return response


urlpatterns = [
    path("", home), path("login", login), path("logout", logout), re_path("^account", account),
    path("cart", cart), path("search", search), path("widget", widget), path("slow", slow),
    path("files/report.txt", report), path("news", news), path("article/<int:number>", article),
    path("offers", offers), path("board", board), path("board/new", compose), path("go", go),
    path("api/token", api_token), path("api/me", api_me), path("api/usage", api_usage),
    path("api/notes", api_notes), re_path("^api/notes/([0-9]+)$", api_notes),
    path("api/public", api_public),
]
application = get_wsgi_application()
