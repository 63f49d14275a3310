//! The image for containers, written without a daemon: an OCI layout in a tar archive, which
//! `docker load`, podman and skopeo read.
//!
//! It has nothing but larder, its configuration, the authorities of Mozilla, and a user.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::archive::{File, gzip, sha256, tar};
use super::contents::Contents;
use crate::workspace::VERSION;

/// The user that larder runs as.
const USER: u32 = 10001;

/// The configuration in the image; a mounted file replaces it, and variables override it.
const CONFIGURATION: &str = include_str!("../../../packaging/image/larder.toml");

/// Returns the image.
///
/// # Errors
///
/// When an archive cannot be made.
pub fn write(contents: &Contents, time: u64) -> Result<Vec<u8>, String> {
    let layer = tar(&files(contents), "", time)?;
    let layer_id = format!("sha256:{}", sha256(&layer));
    let config = blob(&config(&layer_id, time));
    let layer = gzip(&layer)?;
    let manifest = blob(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer)],
    }));
    let mut entry = descriptor(MANIFEST, &manifest);
    entry["platform"] = json!({"architecture": "amd64", "os": "linux"});
    entry["annotations"] = json!({
        "io.containerd.image.name": format!("docker.io/library/larder:{VERSION}"),
        "org.opencontainers.image.ref.name": VERSION,
    });
    let index = blob(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    }));
    // What versions of Docker before 25 read.
    let legacy = blob(&json!([{
        "Config": path(&config),
        "RepoTags": [format!("larder:{VERSION}")],
        "Layers": [path(&layer)],
    }]));
    let files = [
        File::new("oci-layout", 0o644, r#"{"imageLayoutVersion":"1.0.0"}"#),
        File::new("index.json", 0o644, index),
        File::new("manifest.json", 0o644, legacy),
        File::new(path(&config), 0o644, config),
        File::new(path(&manifest), 0o644, manifest),
        File::new(path(&layer), 0o644, layer),
    ];
    tar(&files, "", time)
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn files(contents: &Contents) -> Vec<File> {
    let passwd = format!(
        "root:x:0:0:root:/:/sbin/nologin\n\
         larder:x:{USER}:{USER}:Larder:/var/lib/larder:/sbin/nologin\n"
    );
    vec![
        File::new("usr/bin/larder", 0o755, contents.larder.clone()),
        File::new("etc/larder/larder.toml", 0o644, CONFIGURATION),
        File::new("etc/passwd", 0o644, passwd),
        File::new("etc/group", 0o644, format!("root:x:0:\nlarder:x:{USER}:\n")),
        File::new("etc/ssl/certs/ca-certificates.crt", 0o644, authorities()),
        File::directory("tmp", 0o1777, 0),
        File::directory("var/lib/larder", 0o750, USER),
    ]
}

/// Returns the authorities that TLS to origin servers trusts, in PEM.
fn authorities() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// Returns the configuration of the image. The health check is Docker's; orchestrators have
/// probes of their own.
fn config(layer: &str, time: u64) -> Value {
    let larder = |command| ["/usr/bin/larder", command, "--config", "/etc/larder/larder.toml"];
    let created = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(time));
    let second = 1_000_000_000_u64;
    let check = [&["CMD"][..], &larder("status"), &["--ready"]].concat();
    json!({
        "architecture": "amd64",
        "os": "linux",
        "created": created.to_string(),
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": larder("serve"),
            "WorkingDir": "/var/lib/larder",
            "ExposedPorts": {"8080/tcp": {}},
            "Volumes": {"/var/lib/larder": {}},
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": check,
                "Interval": 10 * second,
                "Timeout": 5 * second,
                // The first start makes the cache, which takes long on some volumes.
                "StartPeriod": 60 * second,
            },
            "Labels": {
                "org.opencontainers.image.title": "larder",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
        "history": [{"created_by": "cargo xtask package"}],
    })
}

fn blob(json: &Value) -> Vec<u8> {
    json.to_string().into_bytes()
}

fn path(blob: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(blob))
}

fn descriptor(kind: &str, blob: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": format!("sha256:{}", sha256(blob)), "size": blob.len()})
}
