package shop;

import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.security.Principal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import org.springframework.core.io.FileSystemResource;
import org.springframework.core.io.Resource;
import org.springframework.http.CacheControl;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;
import org.springframework.security.web.csrf.CsrfToken;
import org.springframework.stereotype.Controller;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.ResponseBody;
import org.springframework.web.context.request.WebRequest;
import org.springframework.web.servlet.mvc.support.RedirectAttributes;
import org.springframework.web.servlet.support.RequestContextUtils;
import org.springframework.web.servlet.view.RedirectView;
import org.springframework.web.util.HtmlUtils;

/** The pages of the shop. */
@Controller
@ResponseBody
class Pages {
    private static final Map<String, String> ARTICLES = Map.of(
        "en", "An article about pears. ",
        "de", "Ein Artikel \u00fcber Birnen. ",
        "fr", "Un article sur les poires. ");
    private final List<String> posts = new CopyOnWriteArrayList<>();

    private static String page(
            HttpServletRequest request, String title, List<String> lines, String form) {
        Principal user = request.getUserPrincipal();
        var html = new StringBuilder("<!doctype html><title>" + title + "</title>"
            + "<link rel=stylesheet href=/static/app.css>\n<h1>" + title + "</h1>");
        var session = request.getSession(false);
        var flashes = new ArrayList<Object>();
        if (session != null && session.getAttribute("flash") != null) {
            flashes.add(session.getAttribute("flash"));
            session.removeAttribute("flash");
        }
        var passed = RequestContextUtils.getInputFlashMap(request);
        if (passed != null) {
            flashes.addAll(passed.values());
        }
        for (Object flash : flashes) {
            String text = HtmlUtils.htmlEscape(flash.toString());
            html.append("<p class=flash>").append(text).append("</p>");
        }
        html.append("<p>Hello ").append(user == null ? "visitor"
            : user.getName() + " " + Shop.secret(user.getName())).append("</p>");
        for (String line : lines) {
            html.append("<li>").append(HtmlUtils.htmlEscape(line)).append("</li>");
        }
        if (!form.isEmpty()) {
            var token = (CsrfToken) request.getAttribute(CsrfToken.class.getName());
            html.append("<form method=post action=").append(form)
                .append("><input type=hidden name=\"").append(token.getParameterName()).append("\" value=\"").append(token.getToken())
                .append("\"><input name=item></form>");
        }
        return html.toString();
    }

    private static ResponseEntity<Void> redirect(String to) {
        return ResponseEntity.status(302).header("Location", to).build();
    }

    @GetMapping("/")
    String home(HttpServletRequest request) {
        return page(request, "Shop", List.of(), "");
    }

    @GetMapping("/login")
    String login(HttpServletRequest request) {
        return page(request, "Sign in", List.of(), "/login");
    }

    @GetMapping({"/account", "/account/**"})
    String account(HttpServletRequest request, Principal user) {
        return page(request, "Account", List.of("Orders of " + user.getName()), "/logout");
    }

    @SuppressWarnings("unchecked")
    private static List<String> items(HttpServletRequest request) {
        Object items = request.getSession().getAttribute("cart");
        return items == null ? List.of() : (List<String>) items;
    }

    @GetMapping("/cart")
    String cart(HttpServletRequest request) {
        return page(request, "Cart", items(request), "/cart");
    }

    @PostMapping("/cart")
    RedirectView add(
            HttpServletRequest request, @RequestParam String item, RedirectAttributes flash) {
        var items = new ArrayList<>(items(request));
        items.add(item);
        request.getSession().setAttribute("cart", items);
        flash.addFlashAttribute("flash", "Added " + item);
        return new RedirectView("/cart");
    }

    @GetMapping("/search")
    String search(HttpServletRequest request, @RequestParam(defaultValue = "") String q) {
        return page(request, "Search", List.of("No pears for " + q), "");
    }

    @GetMapping("/widget")
    ResponseEntity<String> widget(HttpServletRequest request) {
        return ResponseEntity.ok()
            .cacheControl(CacheControl.maxAge(Duration.ofSeconds(60)).cachePrivate())
            .body(page(request, "Widget", List.of(), ""));
    }

    @GetMapping("/slow")
    String slow(HttpServletRequest request) throws InterruptedException {
        Thread.sleep(300);
        return page(request, "Slow", List.of(), "");
    }

    @GetMapping(value = "/files/report.txt", produces = MediaType.TEXT_PLAIN_VALUE)
    ResponseEntity<Resource> report(Principal user) throws java.io.IOException {
        var file = new FileSystemResource(Shop.report(user.getName()));
        return ResponseEntity.ok().lastModified(file.lastModified()).body(file);
    }

    @GetMapping(value = "/news", produces = MediaType.TEXT_HTML_VALUE)
    ResponseEntity<String> news() {
        return ResponseEntity.ok().cacheControl(Shop.forAll(60))
            .body("<h1>News</h1>" + "<p>Pears are ripe.</p>".repeat(80));
    }

    @GetMapping("/article/{number}")
    String article(@PathVariable int number, Locale locale, WebRequest request,
            HttpServletResponse response) {
        response.addHeader("Vary", "Accept-Language");
        response.setHeader("Content-Language", locale.getLanguage());
        if (number == 2) {
            response.setHeader("Cache-Control", Shop.forAll(300).getHeaderValue());
        }
        if (request.checkNotModified("\"article-" + number + "-v7\"")) {
            return null;
        }
        return ARTICLES.get(locale.getLanguage()).repeat(60);
    }

    @GetMapping("/offers")
    String offers(HttpServletRequest request, HttpServletResponse response, WebRequest conditions) {
        request.getSession().setAttribute("seen", System.nanoTime());
        response.addHeader("Vary", "Cookie");
        response.setHeader("Cache-Control", Shop.forAll(300).getHeaderValue());
        var visit = new Cookie("visit", UUID.randomUUID().toString());
        visit.setPath("/");
        response.addCookie(visit);
        if (conditions.checkNotModified("\"offers-v1\"")) {
            return null;
        }
        return "<h1>Offers</h1>" + "<p>Two pears for one.</p>".repeat(80);
    }

    @GetMapping(value = "/board", produces = MediaType.TEXT_HTML_VALUE)
    ResponseEntity<String> board() {
        var html = new StringBuilder();
        for (String text : posts) {
            html.append("<li>").append(HtmlUtils.htmlEscape(text)).append("</li>");
        }
        return ResponseEntity.ok().cacheControl(Shop.forAll(30)).body(html.toString());
    }

    @PostMapping("/board")
    ResponseEntity<Void> write(@RequestParam String text) {
        posts.add(text);
        return redirect("/board");
    }

    @GetMapping("/board/new")
    String compose(HttpServletRequest request) {
        return page(request, "Write", List.of(), "/board");
    }

    @GetMapping("/go")
    ResponseEntity<Void> go(HttpServletRequest request) {
        return redirect(Shop.origin(request) + "/account");
    }
}
