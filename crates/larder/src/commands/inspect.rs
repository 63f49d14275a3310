//! `larder inspect`: shows the contents of a cache as text or, with `--json`, for programs.
//!
//! It can read beside a running proxy: it takes no lock and writes nothing.

use std::fmt::Write;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cli::outcome::{Failure, answer};
use cli::units::about;
use device::{Access, AnyDevice, CacheFile, OpenOptions};
use proxy::object::key::{key_prefix, primary_key};
use proxy::rules::aliases::Aliases;
use semantics::{Meta, Settings, StoredHead, Time, Url};
use serde_json::{Value, json};
use store::{Condition, Inspector, ObjectReport, SuperblockReport, VerifyReport};

use crate::caches::executor::on_device;
use crate::caches::open_caches::judge;
use crate::config::configuration::{Config, DEFAULT_SITE};
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;
use crate::config::to_options::rules;

/// The part of a cache that `larder inspect` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// Superblock, fill level and number of objects: the default.
    Overview,
    Superblock,
    Clusters,
    Object {
        url: String,
        /// The site of a reverse proxy under which the object is stored.
        site: Option<String>,
        /// The configuration that determines the possible names of the object.
        config: Option<PathBuf>,
    },
    Verify,
}

/// Interval of the progress lines of a verification.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// A report in both output formats.
struct Report {
    text: String,
    json: Value,
    /// True if something is wrong with the cache.
    bad: bool,
}

/// Shows `what` of the cache at `path`. Exit code 1 if the cache is damaged or the object is not
/// stored.
pub fn run(path: &Path, what: &Inspection, json: bool) -> Result<(), Failure> {
    let at = path.display();
    // Reports the operating system's error if the path does not exist.
    fs::metadata(path).map_err(|error| Failure::runtime(format!("{at}: {error}")))?;
    let options = OpenOptions { access: Access::ReadOnly, ..OpenOptions::default() };
    let file = CacheFile::open(path, &options).map_err(Failure::runtime)?;
    if let Some(why) = judge(&file) {
        return Err(Failure::runtime(format!("{at}: {why}")));
    }
    let report = on_device(&file, async |device| inspect(&device, what).await)
        .map_err(|error| Failure::runtime(format!("{at}: {error}")))?
        .map_err(|why| Failure::runtime(format!("{at}: {why}")))?;
    match json {
        true => answer(&report.json.to_string())?,
        false => answer(report.text.trim_end())?,
    }
    match report.bad {
        true => Err(Failure::runtime(format!("{at}: problems found, see above"))),
        false => Ok(()),
    }
}

async fn inspect(device: &AnyDevice, what: &Inspection) -> Result<Report, String> {
    let inspector = Inspector::open(device).await.map_err(|error| error.to_string())?;
    match what {
        Inspection::Overview => overview(&inspector).await,
        Inspection::Superblock => Ok(superblock(&inspector.superblock())),
        Inspection::Clusters => clusters(&inspector).await,
        Inspection::Object { url, site, config } => {
            object(&inspector, url, site.as_deref(), config.as_deref()).await
        }
        Inspection::Verify => verify(&inspector).await,
    }
}

type Looking<'a> = Inspector<'a, AnyDevice>;

async fn overview(inspector: &Looking<'_>) -> Result<Report, String> {
    let superblock = inspector.superblock();
    if superblock.slots > 0 {
        return Ok(overview_of_slots(inspector, &superblock).await);
    }
    let clusters = inspector.clusters().await.map_err(|error| error.to_string())?;
    let count = |state| clusters.iter().filter(|cluster| cluster.state == state).count();
    let (used, bad) = (count("in use"), count("bad"));
    let percent = used * 100 / clusters.len().max(1);
    let size = superblock.areas.iter().map(|(_, extent)| extent.end()).max().unwrap_or(0);
    let text = format!(
        "size       {}\nclusters   {} of {}, {used} in use ({percent}%), {bad} bad\n\
         state      {}\nopened     {} times\n",
        about(size),
        clusters.len(),
        about(u64::from(superblock.cluster_size)),
        condition(superblock.condition, superblock.generation),
        openings(superblock.generation),
    );
    let json = json!({
        "bytes": size,
        "cluster_size": superblock.cluster_size,
        "clusters": clusters.len(),
        "clusters_in_use": used,
        "clusters_bad": bad,
        "condition": condition_name(superblock.condition),
        "generation": superblock.generation,
    });
    Ok(Report { text, json, bad: false })
}

async fn overview_of_slots(inspector: &Looking<'_>, superblock: &SuperblockReport) -> Report {
    let size = superblock.areas.iter().map(|(_, extent)| extent.end()).max().unwrap_or(0);
    let report = inspector.slots().await;
    let used = report.map_or_else(
        || "run `larder inspect PATH verify` to count those in use".to_owned(),
        |report| {
            let percent = report.used * 100 / u64::from(superblock.slots).max(1);
            format!("{} in use ({percent}%) by {} records", report.used, report.records)
        },
    );
    let text = format!(
        "size       {}\nlayout     {}\nslots      {} of {} bytes, {used}\nstate      {}\n\
         opened     {} times\n",
        about(size),
        superblock.layout,
        superblock.slots,
        superblock.granule,
        condition(superblock.condition, superblock.generation),
        openings(superblock.generation),
    );
    let json = json!({
        "bytes": size,
        "layout": superblock.layout.as_str(),
        "slot_bytes": superblock.granule,
        "slots": superblock.slots,
        "slots_in_use": report.map(|report| report.used),
        "records": report.map(|report| report.records),
        "condition": condition_name(superblock.condition),
        "generation": superblock.generation,
    });
    Report { text, json, bad: false }
}

/// Returns how often a cache was opened; its creation counts as a generation.
fn openings(generation: u64) -> u64 {
    generation.saturating_sub(1)
}

fn condition_name(condition: Condition) -> &'static str {
    match condition {
        Condition::InUse => "in use",
        Condition::Clean => "clean",
        Condition::Condemned => "condemned",
    }
}

fn condition(condition: Condition, generation: u64) -> &'static str {
    match condition {
        Condition::InUse if openings(generation) == 0 => "new, not used yet",
        Condition::InUse => "in use, or not stopped in order",
        Condition::Clean => "stopped in order",
        Condition::Condemned => "condemned: the device failed, the next start begins empty",
    }
}

fn superblock(report: &SuperblockReport) -> Report {
    let uuid: String = report.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let [first, second] = report.copies.map(|whole| if whole { "whole" } else { "DAMAGED" });
    let mut text = format!(
        "uuid           {uuid}\nformat version {}\ncopies         A {first}, B {second}\n\
         created        {}\nopened         {} times\nstate          {}\n\
         mean object    {}\nlayout         {}\n",
        store::FORMAT_VERSION,
        date(report.created_at),
        openings(report.generation),
        condition(report.condition, report.generation),
        about(u64::from(report.mean_object)),
        report.layout,
    );
    // Writing to a string cannot fail.
    let _ = match report.slots {
        0 => writeln!(
            text,
            "cluster size   {}\nclusters       {}\ngranule        {} bytes",
            about(u64::from(report.cluster_size)),
            report.clusters,
            report.granule,
        ),
        slots => writeln!(text, "slots          {slots} of {} bytes", report.granule),
    };
    for (name, value) in &report.layout_parameters {
        let _ = writeln!(text, "{name:14} {value}");
    }
    for (name, extent) in &report.areas {
        let _ = writeln!(text, "{name:14} at {:>14}, {:>14} bytes", extent.offset, extent.len);
    }
    let areas: Vec<Value> = report
        .areas
        .iter()
        .map(|(name, extent)| json!({"name": name, "offset": extent.offset, "bytes": extent.len}))
        .collect();
    let parameters = report.layout_parameters.iter().map(|(n, v)| ((*n).to_owned(), json!(v)));
    let parameters: Value = parameters.collect::<serde_json::Map<_, _>>().into();
    let json = json!({
        "uuid": uuid,
        "format_version": store::FORMAT_VERSION,
        "copies_whole": report.copies,
        "created_at": report.created_at,
        "generation": report.generation,
        "condition": condition_name(report.condition),
        "mean_object": report.mean_object,
        "cluster_size": report.cluster_size,
        "clusters": report.clusters,
        "granule": report.granule,
        "layout": report.layout.as_str(),
        "layout_parameters": parameters,
        "slots": report.slots,
        "areas": areas,
    });
    Report { text, json, bad: report.copies != [true, true] }
}

async fn clusters(inspector: &Looking<'_>) -> Result<Report, String> {
    let clusters = inspector.clusters().await.map_err(|error| error.to_string())?;
    let mut text = format!(
        "{:>10} {:7} {:>20} {:>10} {:>8} {}\n",
        "cluster", "state", "incarnation", "references", "dead", "last access"
    );
    for cluster in clusters.iter().filter(|cluster| cluster.state != "free") {
        let _ = writeln!(
            text,
            "{:>10} {:7} {:>20} {:>10} {:>8} {}",
            cluster.number,
            cluster.state,
            cluster.incarnation,
            cluster.references,
            cluster.dead_records,
            date(u64::from(cluster.last_access)),
        );
    }
    let free = clusters.iter().filter(|cluster| cluster.state == "free").count();
    let _ = writeln!(text, "{free} more are free");
    let json = clusters
        .iter()
        .map(|cluster| {
            json!({
                "cluster": cluster.number,
                "state": cluster.state,
                "incarnation": cluster.incarnation,
                "references": cluster.references,
                "dead_records": cluster.dead_records,
                "last_access": cluster.last_access,
            })
        })
        .collect();
    Ok(Report { text, json, bad: false })
}

/// A possible name of an object: the site of a reverse proxy, if any, and the URL.
type Called = (Option<String>, Url);

async fn object(
    inspector: &Looking<'_>,
    url: &str,
    site: Option<&str>,
    config: Option<&Path>,
) -> Result<Report, String> {
    let parsed = Url::parse(url).map_err(|why| {
        format!("expected a URL such as http://example.com/path, got {url:?}: {why}")
    })?;
    let mut fronts = Vec::new();
    for (site, name) in called(&parsed, site, config)? {
        let key = primary_key(&key_prefix(site.as_deref()), &name)
            .ok_or("the URL is longer than any key")?;
        let front = site.map_or("the forward proxy".to_owned(), |site| format!("site {site}"));
        let object = inspector.find(key.as_bytes()).await.map_err(|error| error.to_string())?;
        if let Some(object) = object {
            return Ok(describe(&name, &front, &object));
        }
        if !fronts.contains(&front) {
            fronts.push(front);
        }
    }
    let hint = match site.is_some() || config.is_some() {
        true => "",
        false => "; --config FILE names all sites, hosts and rules",
    };
    Err(format!("nothing is stored for {} ({}{hint})", parsed.as_str(), fronts.join(", ")))
}

/// Returns all possible names of an object, as far as the site and the configuration are given.
fn called(url: &Url, site: Option<&str>, config: Option<&Path>) -> Result<Vec<Called>, String> {
    let loaded = config.map(|path| Loaded::load(Some(path), &Layer::new())).transpose()?;
    let config = loaded.map(|loaded| loaded.config);
    let mut fronts = vec![(None, Aliases::default())];
    if let Some(config) = &config {
        let fronts_of_sites = sites(config);
        if !fronts_of_sites.is_empty() {
            fronts = fronts_of_sites;
        }
    } else {
        let (host, _) = Aliases::split(url.authority());
        let guessed = [DEFAULT_SITE, host].map(|name| (Some(name.to_owned()), Aliases::default()));
        fronts.extend(guessed);
    }
    if let Some(site) = site {
        let known = fronts.into_iter().find(|(name, _)| name.as_deref() == Some(site));
        fronts = vec![known.unwrap_or((Some(site.to_owned()), Aliases::default()))];
    }
    let rules = config.as_ref().map(|config| rules(config, &Settings::default())).transpose()?;
    let mut all: Vec<Called> = Vec::new();
    for (site, aliases) in fronts {
        for authority in aliases.authorities(url) {
            let name = Url::new(url.scheme(), &authority, url.sent());
            let name = name.map_err(|why| why.to_string())?;
            let names = match &rules {
                Some(rules) => rules.names(site.as_deref(), &name),
                None => vec![name],
            };
            let known: Vec<Called> = names.into_iter().map(|url| (site.clone(), url)).collect();
            all.extend(known.into_iter().filter(|one| !all.contains(one)).collect::<Vec<_>>());
        }
    }
    Ok(all)
}

/// Returns the sites of a configuration with their aliases.
fn sites(config: &Config) -> Vec<(Option<String>, Aliases)> {
    let listeners = config.all_listeners();
    let ports = listeners.iter().filter_map(|listener| listener.address.as_ref()?.ip());
    let ports: Vec<u16> = ports.map(|address| address.port()).filter(|port| *port != 0).collect();
    let listed = config.sites.iter().map(|site| {
        let aliases = site.aliases(&ports);
        (site.called().map(str::to_owned), aliases)
    });
    let rest = config.has_default_site().then(|| {
        let aliases = match &config.root {
            Some(_) => Aliases::of_every_host(&ports),
            None => Aliases::new(&[], false, &ports),
        };
        (Some(DEFAULT_SITE.to_owned()), aliases)
    });
    listed.chain(rest).collect()
}

fn describe(url: &Url, front: &str, object: &ObjectReport) -> Report {
    let whole = if object.whole { "whole" } else { "DAMAGED" };
    let mut text = format!(
        "url       {}\nfront     {front}\nbody      {} bytes{}, {whole}\n\
         record    {} bytes at {}, {}\n\
         stored    {} (number {})\n",
        url.as_str(),
        object.len,
        if object.pieces > 0 { format!(" in {} pieces", object.pieces) } else { String::new() },
        object.record_len,
        object.offset,
        match (object.cluster, object.runs) {
            (Some(cluster), _) => format!("cluster {cluster}"),
            (None, 1) => "in one run of slots".to_owned(),
            (None, runs) => format!("in {runs} runs of slots"),
        },
        date(object.stored_at),
        object.sequence,
    );
    let mut json = json!({
        "url": url.as_str(),
        "front": front,
        "bytes": object.len,
        "pieces": object.pieces,
        "whole": object.whole,
        "record_bytes": object.record_len,
        "offset": object.offset,
        "cluster": object.cluster,
        "runs": object.runs,
        "stored_at": object.stored_at,
        "sequence": object.sequence,
    });
    let mut bad = !object.whole;
    match Meta::decode(&object.meta) {
        Ok(Meta::Head(head)) => describe_head(&head, &mut text, &mut json),
        Ok(Meta::Sparse(sparse)) => {
            let layout = sparse.layout;
            let (length, window) = (layout.length, layout.window);
            let _ = writeln!(text, "parts     of {length} bytes, in windows of {window}");
            json["parts_of"] = json!(length);
            json["window"] = json!(window);
            describe_head(&sparse.head, &mut text, &mut json);
        }
        Ok(Meta::Part(part)) => {
            let _ = writeln!(text, "part      from byte {} on", part.start);
            json["part_from"] = json!(part.start);
        }
        Ok(Meta::Marker(marker)) => {
            let sets: Vec<Vec<String>> = marker
                .choices()
                .map(|marker| marker.names().iter().map(ToString::to_string).collect())
                .collect();
            for names in &sets {
                let names = if names.is_empty() { "nothing".into() } else { names.join(", ") };
                let _ = writeln!(text, "variants  by {names}");
            }
            json["vary"] = json!(sets);
        }
        Err(damaged) => {
            let _ = writeln!(text, "metadata  {damaged}");
            json["metadata"] = json!(damaged.to_string());
            bad = true;
        }
    }
    Report { text, json, bad }
}

/// Adds status, freshness and fields of a stored head to both formats.
fn describe_head(head: &StoredHead, text: &mut String, json: &mut Value) {
    let ttl = head.packed().ttl(now());
    let fresh = match ttl {
        0.. => format!("fresh for another {ttl} s"),
        _ => format!("stale for {} s", -ttl),
    };
    let _ = writeln!(text, "state     {fresh}\n\n{}", head.status());
    for (name, value) in head.headers() {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    let headers: Vec<Value> = head
        .headers()
        .iter()
        .map(|(n, v)| json!([n.as_str(), String::from_utf8_lossy(v.as_bytes())]))
        .collect();
    json["ttl"] = json!(ttl);
    json["status"] = json!(head.status().as_u16());
    json["headers"] = json!(headers);
}

async fn verify(inspector: &Looking<'_>) -> Result<Report, String> {
    let mut due = Instant::now() + PROGRESS_EVERY;
    let to_people = io::stderr().is_terminal();
    let has_slots = inspector.superblock().slots > 0;
    let unit = if has_slots { "MiB" } else { "clusters" };
    let report = inspector
        .verify(|done, of| {
            if Instant::now() >= due && done < of {
                due = Instant::now() + PROGRESS_EVERY;
                let end = if to_people { '\r' } else { '\n' };
                let _ = io::Write::write_fmt(
                    &mut io::stderr(),
                    format_args!("verified {done} of {of} {unit}{end}"),
                );
            }
        })
        .await
        .map_err(|error| error.to_string())?;
    Ok(verified(&report, has_slots))
}

fn verified(report: &VerifyReport, has_slots: bool) -> Report {
    let place = match has_slots {
        true => format!("{} of them in several runs of slots", report.split),
        false => format!("in {} clusters", report.clusters),
    };
    let mut text = format!(
        "{} records ({}) are whole, {place}; {} are dead\n",
        report.records,
        about(report.bytes),
        report.dead
    );
    if report.unreadable_bytes > 0 {
        let _ = writeln!(text, "{} bytes cannot be read", report.unreadable_bytes);
    }
    if report.unreadable_clusters > 0 {
        let _ = writeln!(text, "{} clusters cannot be read", report.unreadable_clusters);
    }
    for (offset, what) in &report.damaged {
        let _ = writeln!(text, "damaged at {offset}: {what}");
    }
    let damaged: Vec<Value> = report
        .damaged
        .iter()
        .map(|(offset, what)| json!({"offset": offset, "what": what}))
        .collect();
    let json = json!({
        "clusters": report.clusters,
        "unreadable_clusters": report.unreadable_clusters,
        "unreadable_bytes": report.unreadable_bytes,
        "split": report.split,
        "records": report.records,
        "bytes": report.bytes,
        "dead": report.dead,
        "damaged": damaged,
    });
    let unreadable = report.unreadable_clusters > 0 || report.unreadable_bytes > 0;
    Report { text, json, bad: unreadable || !report.damaged.is_empty() }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Time::from_unix_millis(since.map_or(0, |time| time.as_millis() as u64))
}

/// The last second of the year 9999, the largest date that can be formatted.
const LAST_DATE: u64 = 253_402_300_799;

/// Formats a time; `-` if there is none.
fn date(unix: u64) -> String {
    match unix {
        0 => "-".to_owned(),
        _ if unix > LAST_DATE => format!("second {unix} since 1970"),
        _ => humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix)).to_string(),
    }
}
