package shop;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.net.URI;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.CrossOrigin;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;

/** The interface of the shop, with bearer tokens and keys. */
@RestController
@RequestMapping("/api")
class Api {
    private static class NotSignedIn extends RuntimeException {
    }

    private final Map<String, String> tokens = new ConcurrentHashMap<>();
    private final Map<String, Map<String, String>> notes = new ConcurrentHashMap<>();

    private String name(String token) {
        String name = token == null ? null : tokens.get(token.replaceFirst("^Bearer ", ""));
        if (name == null) {
            throw new NotSignedIn();
        }
        return name;
    }

    private Map<String, String> notesOf(String name) {
        return notes.computeIfAbsent(name, n -> new TreeMap<>());
    }

    @ExceptionHandler(NotSignedIn.class)
    ResponseEntity<Object> notSignedIn() {
        return ResponseEntity.status(401).header("WWW-Authenticate", "Bearer")
            .body(Map.of("error", "not signed in"));
    }

    @PostMapping("/token")
    ResponseEntity<Object> token(@RequestBody Map<String, String> sent) {
        if (!("pw-" + sent.get("name")).equals(sent.get("password"))) {
            return ResponseEntity.status(403).body(Map.of("error", "wrong password"));
        }
        String token = "token-" + UUID.randomUUID();
        String key = "key-" + UUID.randomUUID();
        tokens.put(token, sent.get("name"));
        tokens.put(key, sent.get("name"));
        return ResponseEntity.ok(Map.of("token", token, "key", key));
    }

    @GetMapping("/me")
    Object me(@RequestHeader(name = "Authorization", required = false) String token) {
        String name = name(token);
        return new TreeMap<>(Map.of("name", name, "secret", Shop.secret(name)));
    }

    @GetMapping("/usage")
    Object usage(@RequestHeader(name = "X-API-Key", required = false) String key) {
        String name = name(key);
        return new TreeMap<>(Map.of("name", name, "plan", "free", "secret", Shop.secret(name)));
    }

    @GetMapping("/notes")
    Object list(@RequestHeader(name = "Authorization", required = false) String token) {
        String name = name(token);
        return new TreeMap<>(Map.of("notes", notesOf(name), "owner", name));
    }

    @PostMapping("/notes")
    ResponseEntity<Object> create(
            @RequestHeader(name = "Authorization", required = false) String token,
            @RequestBody Map<String, String> sent) {
        var mine = notesOf(name(token));
        String number = String.valueOf(mine.size() + 1);
        mine.put(number, sent.get("text"));
        return ResponseEntity.created(URI.create("/api/notes/" + number))
            .body(Map.of("number", number));
    }

    @RequestMapping("/notes/{number}")
    ResponseEntity<Object> note(
            @RequestHeader(name = "Authorization", required = false) String token,
            @PathVariable String number, HttpServletRequest request,
            @RequestBody(required = false) Map<String, String> sent) {
        String name = name(token);
        var mine = notesOf(name);
        if (!mine.containsKey(number)) {
            return ResponseEntity.status(404).body(Map.of("error", "no such note"));
        }
        if (request.getMethod().equals("PUT")) {
            mine.put(number, sent.get("text"));
        }
        if (request.getMethod().equals("DELETE")) {
            mine.remove(number);
            return ResponseEntity.noContent().build();
        }
        return ResponseEntity.ok(new TreeMap<>(Map.of("owner", name, "text", mine.get(number))));
    }

    @CrossOrigin(originPatterns = "https://*.example")
    @GetMapping("/public")
    Object open(HttpServletResponse response) {
        response.setHeader("Cache-Control", Shop.forAll(60).getHeaderValue());
        return Map.of("pears", new int[400]);
    }
}
