package shop;

import jakarta.servlet.http.HttpServletRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.core.Ordered;
import org.springframework.http.CacheControl;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.core.userdetails.UserDetailsService;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.security.web.authentication.AuthenticationSuccessHandler;
import org.springframework.security.web.authentication.SavedRequestAwareAuthenticationSuccessHandler;
import org.springframework.web.filter.ShallowEtagHeaderFilter;
import org.springframework.web.servlet.LocaleResolver;
import org.springframework.web.servlet.i18n.AcceptHeaderLocaleResolver;

/**
 * The shop in Spring Boot: Spring Security's form login and CSRF tokens, Tomcat's sessions, flash
 * attributes, ShallowEtagHeaderFilter, resource handlers. The pages are those that ../README.md
 * lists. Spring Security's own Cache-Control is turned off, as applications do that want to be
 * cached; its ETags remain.
 */
@SpringBootApplication
public class Shop {
    public static void main(String[] arguments) {
        SpringApplication.run(Shop.class, arguments);
    }

    static String secret(String name) {
        try {
            byte[] sum = MessageDigest.getInstance("SHA-256").digest(("shop" + name).getBytes());
            return "secret-" + HexFormat.of().formatHex(sum).substring(0, 12);
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    static Path report(String name) {
        return Path.of(System.getenv("STATE"), name + ".txt");
    }

    private static void writeReport(String name) throws IOException {
        Files.writeString(report(name),
            "The report of %s, %s.\n".formatted(name, secret(name)).repeat(40));
        // The time follows from the name, so that all instances agree on it.
        long written = 1_700_000_000L + Long.parseLong(secret(name).substring(14), 16);
        Files.setLastModifiedTime(report(name), FileTime.from(written, TimeUnit.SECONDS));
    }

    @Bean
    SecurityFilterChain chain(HttpSecurity http) throws Exception {
        var toTarget = new SavedRequestAwareAuthenticationSuccessHandler();
        toTarget.setDefaultTargetUrl("/account");
        toTarget.setTargetUrlParameter("next");
        AuthenticationSuccessHandler success = (request, response, authentication) -> {
            writeReport(authentication.getName());
            request.getSession().setAttribute("flash", "Welcome " + authentication.getName());
            toTarget.onAuthenticationSuccess(request, response, authentication);
        };
        return http
            .authorizeHttpRequests(r -> r
                .requestMatchers("/account", "/account/**", "/files/**").authenticated()
                .anyRequest().permitAll())
            .csrf(c -> c.ignoringRequestMatchers("/api/**"))
            .formLogin(f -> f.loginPage("/login").usernameParameter("name").successHandler(success))
            .logout(l -> l.logoutSuccessUrl("/"))
            .headers(h -> h.cacheControl(c -> c.disable()))
            .cors(Customizer.withDefaults())
            .build();
    }

    @Bean
    UserDetailsService users() {
        return name -> User.withUsername(name).password("{noop}pw-" + name).build();
    }

    @Bean
    FilterRegistrationBean<ShallowEtagHeaderFilter> etags() {
        var filter = new FilterRegistrationBean<>(new ShallowEtagHeaderFilter());
        filter.setOrder(Ordered.HIGHEST_PRECEDENCE + 10);
        return filter;
    }

    @Bean
    LocaleResolver localeResolver() {
        var resolver = new AcceptHeaderLocaleResolver();
        resolver.setSupportedLocales(List.of(Locale.ENGLISH, Locale.GERMAN, Locale.FRENCH));
        resolver.setDefaultLocale(Locale.ENGLISH);
        return resolver;
    }

    static CacheControl forAll(int seconds) {
        return CacheControl.maxAge(Duration.ofSeconds(seconds)).cachePublic();
    }

    static String origin(HttpServletRequest request) {
        String url = request.getRequestURL().toString();
        return url.substring(0, url.indexOf('/', url.indexOf("//") + 2));
    }
}
