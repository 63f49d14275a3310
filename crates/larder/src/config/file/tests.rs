//! Tests of configurations in several files.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::config::file::File;
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;

/// A directory with these files; the first is the main file.
fn directory<T: AsRef<str>>(files: &[(T, T)]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.as_ref()).unwrap();
    }
    let main = directory.path().join(files[0].0.as_ref());
    (directory, main)
}

fn load<T: AsRef<str>>(files: &[(T, T)]) -> Loaded {
    let (_directory, main) = directory(files);
    let file = File::read(&main).unwrap_or_else(|problems| panic!("{problems}"));
    Loaded::build(&file, &Layer::new()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the problems, without the directory of the files.
fn problems<T: AsRef<str>>(files: &[(T, T)]) -> String {
    let (directory, main) = directory(files);
    let built = |file| Loaded::build(&file, &Layer::new()).map_err(|problems| problems.to_string());
    let told = File::read(&main).and_then(built).expect_err("refused");
    told.replace(&format!("{}/", directory.path().display()), "")
}

const SITE: &str = "[[site]]\nupstream = 'http://b'\n";

#[test]
fn an_include_stands_for_the_text_of_its_files() {
    let site = |host: &str| format!("{SITE}hosts = ['{host}']\n");
    let rule = |name: &str| format!("[[rule]]\nname = '{name}'\nttl = '1s'\n");
    let config = load(&[
        (
            "larder.toml",
            &format!(
                "include = ['sites/*.toml', 'conf.d', 'none/*', 'one.toml']\nmemory = '32M'\n\
                 {}{}[store]\ndurability-bound = '1s'\n",
                site("main"),
                rule("main")
            ),
        ),
        ("sites/b.toml", &(site("b") + &rule("b"))),
        ("sites/a.toml", &(site("a") + &rule("a") + "[store]\none-timer-hours = 7\n")),
        ("sites/.hidden.toml", "broken"),
        ("sites/readme", "broken"),
        ("conf.d/2.toml", &(site("2") + &rule("2"))),
        ("conf.d/10.toml", &("include = '../deeper.toml'\n".to_owned() + &rule("10"))),
        ("conf.d/10.toml~", "broken"),
        ("deeper.toml", &(rule("deeper") + "[fleet]\n")),
        ("one.toml", &site("one")),
    ])
    .config;
    let hosts: Vec<_> = config.sites.iter().map(|site| site.hosts[0].as_str()).collect();
    assert_eq!(hosts, ["a", "b", "2", "one", "main"]);
    let rules: Vec<_> = config.rules.iter().map(|rule| rule.name.as_deref().unwrap()).collect();
    assert_eq!(rules, ["a", "b", "deeper", "10", "2", "main"]);
    assert_eq!((config.memory, config.store.durability_bound.as_secs()), (32 << 20, 1));
    assert_eq!(config.store.one_timer_age.unwrap().as_secs(), 7 * 3600);
}

#[test]
fn a_problem_is_named_with_its_own_file() {
    let told = problems(&[
        (
            "larder.toml",
            "\ninclude = ['a.toml', 'none.toml', 'bad.toml', 'd', 'a.toml', 7, '[']\nmemry = 1\n\
             memory = '32M'\n",
        ),
        ("a.toml", "\n\nmemory = '64M'\nworkers = 'x'\n"),
        ("bad.toml", "\n= 1\n"),
        ("d/x.toml", "include = '../larder.toml'\n"),
    ]);
    let missing = "No such file or directory (os error 2)";
    let lines: Vec<&str> = told.lines().collect();
    let expected = [
        "a.toml:4: workers: expected a whole number from 1 to 1024, or \"auto\", got \"x\" in \
         quotes",
        "bad.toml:2: this is not TOML: ",
        "d/x.toml:1: include: d/../larder.toml includes itself",
        &format!("larder.toml:2: include: none.toml: {missing}"),
        "larder.toml:2: include: a.toml is included already at larder.toml:2",
        "larder.toml:2: include: expected a file, a directory or a pattern such as sites/*.toml, \
         got a number without quotes",
        "larder.toml:2: include: expected a pattern such as sites/*.toml: ",
        "larder.toml:3: memry: there is no such key; did you mean memory?",
        "larder.toml:4: memory: is given already at a.toml:3",
    ];
    let mut rest = lines.clone();
    for expected in expected {
        let found = rest.iter().position(|line| line.starts_with(expected));
        rest.remove(found.unwrap_or_else(|| panic!("{expected} is not in {lines:#?}")));
    }
    assert!(rest.is_empty(), "{rest:#?}");
    let site = format!("{SITE}hosts = ['x']\nname = 'one'\n");
    let told = problems(&[
        ("larder.toml", &format!("include = 'a.toml'\n{site}")),
        ("a.toml", &site.replace("one", "two")),
    ]);
    assert_eq!(told, "larder.toml:2: site.hosts: \"x\" already belongs to the site of a.toml:1");
}

#[test]
fn includes_are_nested_to_a_depth_of_eight() {
    let nested = |depth: usize| -> Vec<(String, String)> {
        let text = |at: usize| format!("include = '{}.toml'\n", at + 1);
        (0..=depth)
            .map(|at| (format!("{at}.toml"), if at < depth { text(at) } else { String::new() }))
            .collect()
    };
    load(&nested(8));
    assert_eq!(
        problems(&nested(9)),
        "8.toml:1: include: expected at most 8 includes within each other"
    );
}

#[test]
fn only_regular_utf8_files_are_included() {
    let (directory, main) = directory(&[(
        "larder.toml",
        "include = ['/dev/zero', 'fifo', 'latin.toml', 'link.toml']\n",
    )]);
    let at = |name: &str| directory.path().join(name);
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(at("latin.toml"), b"# one\n# caf\xe9\n").unwrap();
    std::os::unix::fs::symlink("link.toml", at("link.toml")).unwrap();
    let told = File::read(&main).expect_err("refused");
    let told = told.replace(&format!("{}/", directory.path().display()), "");
    assert_eq!(
        told,
        "latin.toml:2: expected UTF-8 text\n\
         larder.toml:1: include: /dev/zero: expected a regular file\n\
         larder.toml:1: include: fifo: expected a regular file\n\
         larder.toml:1: include: link.toml: Too many levels of symbolic links (os error 40)"
    );
    let told = File::read(std::path::Path::new("/dev/zero")).expect_err("endless");
    assert_eq!(told, "/dev/zero: expected at most 64M");
}

#[test]
fn values_of_all_kinds_may_come_from_the_environment() {
    let text = "workers = '{env:LARDER_NO_SUCH:3}'\ncache = ['{env:LARDER_NO_SUCH:x}.cache']\n\
                listen = ['127.0.0.1:{env:LARDER_NO_SUCH:81}']\n[[site]]\n\
                hosts = '{env:LARDER_NO_SUCH:a.test}'\nupstream = 'http://b'\n\
                [upstream]\ntls-verify = '{env:LARDER_NO_SUCH:false}'\n";
    let config = load(&[("larder.toml", text)]).config;
    assert_eq!((config.workers, config.cache), (Some(3), vec![PathBuf::from("x.cache")]));
    assert_eq!(
        (config.listen[0].to_string().as_str(), &*config.sites[0].hosts[0]),
        ("127.0.0.1:81", "a.test")
    );
    assert!(config.upstream_settings.is_unverified());
    let text = "\n[[rule]]\npaths = ['/',\n '{env:LARDER_NO_SUCH}']\n[purge]\nsecret = 'x{env:'";
    assert_eq!(
        problems(&[("larder.toml", "include = 'a.toml'"), ("a.toml", text)]),
        "a.toml:4: rule.paths: the environment variable LARDER_NO_SUCH is not set; set it, or \
         give a default: {env:LARDER_NO_SUCH:DEFAULT}\n\
         a.toml:6: purge.secret: expected {env:NAME} or {env:NAME:DEFAULT}, got {env:…"
    );
}

#[test]
fn lists_of_rules_have_entries_in_files() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).unwrap();
        directory.path().join(name)
    };
    write("hosts.txt", "# comment\na.example\n\n .b.example \n");
    let main = write("larder.toml", "[[rule]]\nhosts = ['c.example', '@hosts.txt']\n");
    let file = File::read(&main).unwrap();
    assert_eq!(file.layer.rules[0].0.when.is.hosts, ["c.example", "a.example", ".b.example"]);
    write("nets.txt", "10.0.0.0/8\n10.0.0.1/8\n");
    write("empty.txt", "# none\n");
    let main = write("larder.toml", "[[rule]]\nnot-hosts = ['@empty.txt']\nttl = '1s'\n");
    assert!(File::read(&main).is_ok());
    for (text, expected) in [
        ("[[rule]]\nnot-clients = ['@nets.txt']", "nets.txt:2: expected a network"),
        ("[[rule]]\nhosts = ['@none.txt']", "none.txt: No such file"),
        ("[[rule]]\nhosts = ['@/dev/zero']", "/dev/zero: expected a regular file"),
        ("[[rule]]\nhosts = ['@/dev/null']", "/dev/null: expected a regular file"),
        ("[[access]]\naction = 'allow'\nhosts = ['@empty.txt']", "the file has no entries"),
        ("[[rule]]\nany = [{ clients = ['@nets.txt'] }]", "rule.any.clients: "),
    ] {
        let why = File::read(&write("larder.toml", text)).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
}
