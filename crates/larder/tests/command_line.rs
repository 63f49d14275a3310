//! The command line through the real binary: help, exit codes, messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn larder(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder"))
        .current_dir(directory)
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[track_caller]
fn expect(output: &Output, code: i32, stdout: &str, stderr: &str) {
    assert_eq!(text(&output.stderr), stderr);
    assert_eq!(text(&output.stdout), stdout);
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn check_config_accepts_a_good_file() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("larder.toml"), "memory = '64M'\n").expect("written");
    let output = larder(dir.path(), &["check-config", "larder.toml"]);
    expect(&output, 0, &format!("{}larder.toml: ok\n", careful("larder.toml")), "");
}

/// Returns the output of `check-config` for a file that does not change sharing.
fn careful(file: &str) -> String {
    format!(
        "{file}: sharing is careful: responses to requests with Cookie (cookie) or other fields \
         that identify a client (identified) need a stated positive lifetime to be stored\n"
    )
}

#[test]
fn check_config_warns_of_what_is_probably_not_meant() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("a.toml"), "allow = '0.0.0.0/0'\n").expect("written");
    let output = larder(dir.path(), &["check-config", "a.toml"]);
    let warning = "larder: warning: a.toml: allow includes 0.0.0.0/0: this is an open proxy\n";
    expect(&output, 0, &format!("{}a.toml: ok\n", careful("a.toml")), warning);
}

/// Writes the configuration of a fleet with its key.
fn fleet(directory: &Path, key: &str) {
    let text = "[fleet]\nlisten = ':3130'\nadvertise = 'a.example:3130'\nnode = 'a'\n\
                capacity = '1G'\njoin = 'larder.example:3130'\nkey-file = 'fleet.key'\n";
    fs::write(directory.join("larder.toml"), text).expect("written");
    fs::write(directory.join("fleet.key"), key).expect("written");
    let mode = fs::Permissions::from_mode(0o604);
    fs::set_permissions(directory.join("fleet.key"), mode).expect("set");
}

#[test]
fn check_config_reads_the_key_of_a_fleet_and_says_what_the_node_is() {
    let dir = tempfile::tempdir().expect("a directory");
    fleet(dir.path(), "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n");
    let output = larder(dir.path(), &["check-config", "larder.toml"]);
    let told = "larder.toml: fleet larder: this node is a, which listens on [::]:3130 and is \
                reached at a.example:3130, with weight 1024; it joins by larder.example:3130; \
                connections are encrypted, gossip is sealed; classes: 1; a document has another \
                owner for each 100 requests a second, up to 4; purges wait 10s; 32M a second are \
                offered; hints take 4M\n";
    let told = format!("{told}{}larder.toml: ok\n", careful("larder.toml"));
    let warning = "larder: warning: larder.toml: fleet.key-file: fleet.key: every user of this \
                   machine may read or change the fleet's key (mode 604): chmod 600 it\n";
    expect(&output, 0, &told, warning);
    fleet(dir.path(), "a good secret\n");
    let output = larder(dir.path(), &["check-config", "larder.toml"]);
    let error = "larder: larder.toml: fleet.key-file: fleet.key: expected 32 random bytes or more \
                 in hex, in base64 or as they are, got another text: make one with `openssl rand \
                 -hex 32`\n";
    expect(&output, 2, "", error);
}

#[test]
fn a_node_of_a_fleet_is_not_started_open_to_the_network() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = larder(dir.path(), &["serve", "--fleet", ":3130", "--join", "a.example:3130"]);
    let said = text(&output.stderr);
    assert!(said.contains("--fleet: [::]:3130: without fleet.key-file anyone"), "{said}");
    assert_eq!(output.status.code(), Some(2));
    assert!(!dir.path().join("larder.cache").exists());
}

#[test]
fn check_config_names_the_sites_that_store_cookies() {
    let dir = tempfile::tempdir().expect("a directory");
    let sites = "[[site]]\nname = 'shop'\nhosts = ['a.example']\nupstream = 'http://b.example'\n";
    let reverse = "reverse = 'http://a.example'\n";
    for (text, names) in [
        (format!("{sites}[caching]\nstore-set-cookie = true\n"), Some("site shop:")),
        (format!("{reverse}[caching]\nsharing = 'rfc'\n"), Some("site of reverse:")),
        (format!("{sites}[caching]\nsharing = 'rfc'\nstore-set-cookie = false\n"), None),
        (reverse.to_owned(), None),
        (String::new(), None),
    ] {
        fs::write(dir.path().join("a.toml"), &text).expect("written");
        let output = larder(dir.path(), &["check-config", "a.toml"]);
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = said.lines().find(|line| line.contains("Set-Cookie"));
        assert_eq!(told.is_some(), names.is_some(), "{text}: {said}");
        assert!(told.is_none_or(|told| names.is_some_and(|names| told.contains(names))), "{said}");
    }
}

#[test]
fn print_config_prints_the_packaged_example() {
    let packaged = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/larder.toml");
    let dir = tempfile::tempdir().expect("a directory");
    let output = larder(dir.path(), &["print-config"]);
    assert_eq!(text(&output.stdout), fs::read_to_string(packaged).expect("read"));
}

#[test]
fn check_config_accepts_the_packaged_example() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/larder.toml");
    let packaged = fs::read_to_string(example).expect("read");
    let dir = tempfile::tempdir().expect("a directory");
    let here = packaged.replace("/var/lib/larder/", "").replace("/var/log/larder/", "");
    fs::write(dir.path().join("larder.toml"), here).expect("written");
    let output = larder(dir.path(), &["check-config", "larder.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn check_config_names_file_line_key_and_what_was_expected() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = "# a comment\ncache-size = '10X'\n\n[store]\nread-unit = 'page'\n";
    fs::write(dir.path().join("larder.toml"), file).expect("written");
    let output = larder(dir.path(), &["check-config", "larder.toml"]);
    expect(
        &output,
        2,
        "",
        "larder: larder.toml:2: cache-size: expected a size such as 10G, from 8M to 1024T, or \
         \"auto\", got \"10X\"\n\
         larder: larder.toml:5: store.read-unit: expected object or cluster, or \"auto\", got \
         \"page\"\n",
    );
}

#[test]
fn check_config_reads_included_files_and_the_environment() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
    write("larder.toml", "include = 'sites/*.toml'\nadmin-token = '{env:SECRET}'\n");
    fs::create_dir(dir.path().join("sites")).expect("made");
    write("sites/a.toml", "[[site]]\nhosts = '{env:HOST:a.test}'\nupstream = 'http://b'\n");
    let check = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.current_dir(dir.path()).args(["check-config", "larder.toml"]);
        command.envs(variables.iter().copied()).output().expect("the binary runs")
    };
    let unset = "larder: larder.toml:2: admin-token: the environment variable SECRET is not set; \
                 set it, or give a default: {env:SECRET:DEFAULT}\n";
    expect(&check(&[]), 2, "", unset);
    let small = check(&[("SECRET", "x"), ("LARDER_MEMORY", "1M"), ("LARDER_SEED", "1")]);
    let wrong = "larder: LARDER_MEMORY: expected a size such as 10G, from 16M to 64T, or \"auto\", \
                got \"1M\"\n";
    expect(&small, 2, "", wrong);
    let odd = check(&[("SECRET", "x"), ("LARDER_MEMROY", "64M"), ("LARDER_ADMIN", "off")]);
    assert!(odd.status.success() && text(&odd.stdout).ends_with("larder.toml: ok\n"), "{odd:?}");
    assert!(text(&odd.stderr).contains("did you mean LARDER_MEMORY?"), "{odd:?}");
    write("sites/b.toml", "\n[[site]]\nhosts = 'a.test'\nupstream = 'http://c'\n");
    let twice = "larder: sites/b.toml:2: site.hosts: \"a.test\" already belongs to the site of \
                 sites/a.toml:1\nlarder: sites/b.toml:2: site.name: \"a.test\" is the site of \
                 sites/a.toml:1 already: give this one a name\n";
    expect(&check(&[("SECRET", "x")]), 2, "", twice);
}

#[test]
fn check_config_asks_the_machine() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = "user = 'no-such-user-here'\ncache = ['missing/x', '/proc/x']\n\
                workers = 1024\nlisten = 8080\nmemory = '64T'\n\
                [[certificate]]\nchain = 'a.pem'\n[[rule]]\nttl = '1m'\n\
                [[rule]]\nbypass = true\n";
    fs::write(dir.path().join("larder.toml"), file).expect("written");
    fs::write(dir.path().join("a.pem"), "-----BEGIN CERTIFICATE-----\n?\n").expect("written");
    let output = larder(dir.path(), &["check-config", "larder.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for line in [
        "warning: larder.toml: memory: 64T exceeds the",
        "warning: larder.toml: workers: 1024 on ",
        "warning: larder.toml: rule 2 never takes effect: rule 1 before it",
        "larder: larder.toml: certificate: a.pem:2: expected certificates in PEM: not base64",
        "larder: larder.toml: user: no user \"no-such-user-here\" on this machine",
        "larder: larder.toml: cache: missing/x: its directory cannot be used: No such file",
        "larder: larder.toml: cache: /proc/x: /proc is a kernel file system, where no files can \
         be created",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = larder(dir.path(), &["check-config", "missing.toml"]);
    expect(&output, 2, "", "larder: missing.toml: No such file or directory (os error 2)\n");
    fs::write(dir.path().join("binary.toml"), b"a = 1\n\xff\xfe").expect("written");
    let output = larder(dir.path(), &["check-config", "binary.toml"]);
    expect(&output, 2, "", "larder: binary.toml:2: expected UTF-8 text\n");
}

#[test]
fn wrong_flags_are_usage_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = larder(dir.path(), &["serve", "--memory", "1M", "--log-format", "csv"]);
    expect(
        &output,
        2,
        "",
        "larder: --memory: expected a size such as 10G, from 16M to 64T, or \"auto\", got \"1M\"\n\
         larder: --log-format: expected combined, squid, json or a text with variables such as \
         {client_ip}, got \"csv\"\n",
    );
    let output = larder(dir.path(), &["serve", "--cach", "x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("'--cache'"), "{}", text(&output.stderr));
    assert_eq!(larder(dir.path(), &[]).status.code(), Some(2));
}

#[test]
fn version_and_help() {
    let output = larder(Path::new("."), &["--version"]);
    expect(&output, 0, concat!("larder ", env!("CARGO_PKG_VERSION"), "\n"), "");
    for arguments in [&["--help"][..], &["serve", "--help"], &["format", "--help"]] {
        let output = larder(Path::new("."), arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("Usage: larder"), "{arguments:?}");
    }
}

#[test]
fn short_help_has_the_first_sentence_of_each_setting() {
    let help = |flag: &str| {
        let printed = text(&larder(Path::new("."), &["serve", flag]).stdout);
        printed.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (short, long) = (help("-h"), help("--help"));
    assert!(short.contains("--cache-size") && short.contains("[default: auto]"), "{short}");
    assert!(!short.contains("it never shrinks") && long.contains("it never shrinks"), "{long}");
}

#[test]
fn completions_and_man_pages_come_from_the_declarations() {
    for shell in ["bash", "fish", "zsh"] {
        let output = larder(Path::new("."), &["completions", shell]);
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(printed.contains("cache-size") && printed.contains("explain"), "{printed}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    expect(&larder(dir.path(), &["man", "."]), 0, "", "");
    let page = fs::read_to_string(dir.path().join("larder-serve.1")).expect("a page");
    assert!(page.contains("\\-\\-cache\\-size"), "{page}");
    assert!(dir.path().join("larder.1").exists() && dir.path().join("larder-lab.1").exists());
    assert_eq!(larder(dir.path(), &["man", "absent"]).status.code(), Some(1));
}

/// Returns a copy of this program in `directory`, with no other program beside it.
fn alone(directory: &Path) -> PathBuf {
    let (here, there) = (env!("CARGO_BIN_EXE_larder"), directory.join("larder"));
    if fs::hard_link(here, &there).is_err() {
        fs::copy(here, &there).expect("copied");
    }
    there
}

/// Writes a substitute for one of Larder's programs, which prints `said` and its arguments and
/// exits with 7.
fn other_program(directory: &Path, name: &str, said: &str) {
    let program = directory.join(name);
    let script = format!("#!/bin/sh\necho {said}: \"$@\"\nexit 7\n");
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("made executable");
}

/// Commands that run another program: the program, its crate, and its first arguments.
const PROGRAMS: [(&str, &str, &str, &str); 3] = [
    ("lab", "larder-lab", "lab", ""),
    ("bench", "larder-bench", "bench", ""),
    ("advise", "larder-lab", "lab", " advise"),
];

#[test]
fn commands_become_the_program_beside_it_or_in_the_path() {
    for (command, name, package, first) in PROGRAMS {
        let dir = tempfile::tempdir().expect("a directory");
        let (here, path) = (dir.path().join("here"), dir.path().join("path"));
        [&here, &path].iter().for_each(|directory| fs::create_dir(directory).expect("made"));
        let program = alone(&here);
        let run = |arguments: &[&str]| {
            let mut run = Command::new(&program);
            run.arg(command)
                .args(arguments)
                .env("PATH", format!("{}:/usr/bin:/bin", path.display()));
            run.output().expect("the binary runs")
        };
        let absent = format!(
            "larder: {command}: {name} is neither beside this program nor in PATH; build it from \
             the sources of Larder with `cargo build --release -p {package}`\n"
        );
        expect(&run(&["list"]), 1, "", &absent);
        other_program(&path, name, "path");
        let said = format!("path:{first} run --quick all\n");
        expect(&run(&["run", "--quick", "all"]), 7, &said, "");
        other_program(&here, name, "here");
        expect(&run(&["--help"]), 7, &format!("here:{first} --help\n"), "");
        expect(&run(&["trace", "--", "-"]), 7, &format!("here:{first} trace -- -\n"), "");
        expect(&run(&[]), 7, &format!("here:{first}\n"), "");
    }
}

#[test]
fn help_lists_the_programs_beside_it() {
    for (command, name, ..) in PROGRAMS {
        let output = larder(Path::new("."), &["--help"]);
        let listed = format!("\n  {command} ");
        assert!(text(&output.stdout).contains(&listed), "{}", text(&output.stdout));
        let output = larder(Path::new("."), &["help", command]);
        assert!(text(&output.stdout).contains(name), "{}", text(&output.stdout));
    }
}

#[test]
fn convert_reports_losses_and_replaces_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let nginx = "server {\n location / {\n  proxy_pass http://127.0.0.1:1;\n  limit_req zone=a;\n  \
                 proxy_redirect off;\n }\n}\n";
    fs::write(dir.path().join("site.conf"), nginx).expect("written");
    let convert = |more: &[&str]| larder(dir.path(), &[&["convert", "site.conf"], more].concat());
    let loss = "larder: site.conf:4: limit_req: there is no such zone\n";
    expect(&convert(&["--out", "a.toml"]), 3, "", loss);
    let refused = "larder: a.toml: File exists (os error 17) (--force replaces it)\n";
    expect(&convert(&["--out", "a.toml"]), 1, "", refused);
    expect(&convert(&["--out", "a.toml", "--force"]), 3, "", loss);
    let checked = larder(dir.path(), &["check-config", "a.toml"]);
    expect(&checked, 0, &format!("{}a.toml: ok\n", careful("a.toml")), "");
    fs::write(dir.path().join("site.conf"), "hello\n").expect("written");
    let unknown = "larder: site.conf: not recognised: name its language (--from)\n";
    expect(&convert(&[]), 1, "", unknown);
}
