//! Renders the chart and validates what it renders, where the tools are installed.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::workspace;
use crate::workspace::{is_installed, output};

/// The values of one node, of a fleet, and of one with the dashboard.
const CASES: &[&[&str]] = &[
    &[],
    &["--set", "replicas=3,fleet.secret=larder-fleet"],
    &["--set", "monitoring.dashboard=true"],
];

/// Renders and validates the chart. Returns what was skipped and why, if anything.
///
/// # Errors
///
/// When a tool reports an error, or a fleet without a key is rendered.
pub fn check() -> Result<Option<&'static str>, String> {
    if !is_installed("helm") {
        return Ok(Some("SKIPPED: chart: helm is not installed"));
    }
    let chart = workspace::root().join("packaging/helm/larder");
    let helm = |words: &[&str], values: &[&str]| {
        let mut command = Command::new("helm");
        command.args(words).arg(&chart).args(values);
        output(command)
    };
    helm(&["lint", "--strict"], &[])?;
    if helm(&["template", "larder", "--kube-version", "1.30.0"], &["--set", "replicas=2"]).is_ok() {
        return Err("chart: expected an error for a fleet without a key".to_owned());
    }
    let mut skipped = match is_installed("kubeconform") {
        true => None,
        false => Some("SKIPPED: validation of the chart: kubeconform is not installed"),
    };
    for values in CASES {
        let rendered = helm(&["template", "larder", "--kube-version", "1.30.0"], values)?;
        if skipped.is_none() {
            skipped = validate(&rendered)?;
        }
    }
    println!("chart: rendered");
    Ok(skipped)
}

/// Validates what was rendered. Returns why it was skipped, if so: the schemas are on the network.
fn validate(rendered: &str) -> Result<Option<&'static str>, String> {
    let mut command = Command::new("kubeconform");
    command.args(["-strict", "-summary"]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |error: std::io::Error| format!("kubeconform: {error}");
    let mut child = command.spawn().map_err(failed)?;
    let mut stdin = child.stdin.take().ok_or("kubeconform: no standard input")?;
    stdin.write_all(rendered.as_bytes()).map_err(failed)?;
    drop(stdin);
    let output = child.wait_with_output().map_err(failed)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    match output.status.success() {
        true => Ok(None),
        false if said.contains("failed downloading schema") => {
            Ok(Some("SKIPPED: validation of the chart: kubeconform cannot fetch its schemas"))
        }
        false => Err(format!("chart: kubeconform rejects it: {said}")),
    }
}
