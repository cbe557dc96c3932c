//! Starts a Kafka broker in a container, says how to reach it, and removes it when its standard input ends.
//!
//! What it says are lines `NAME=VALUE`, the variables of `millpond-kafka-dev`, and an empty line. The variable
//! `MILLPOND_TEST_KAFKA_IMAGE` names another image than Kafka's own.

use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use millpond_kafka_dev::{
    ADDRESS_VARIABLE, CA_VARIABLE, Container, SECURE_VARIABLE, UNTRUSTED_CA_VARIABLE, VERSION, wait_until_ready,
};
use testcontainers::core::{ExecCommand, Host, IntoContainerPort};
use testcontainers::runners::SyncRunner;
use testcontainers::{GenericImage, ImageExt};

/// How long an image may take to be pulled, and the container to start.
const PULL: Duration = Duration::from_secs(600);
/// How long the broker may then take to answer.
const START: Duration = Duration::from_secs(120);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let container = Container::new(&docker_host(std::env::var("DOCKER_HOST").ok().as_deref()))?;
    let image = std::env::var("MILLPOND_TEST_KAFKA_IMAGE").unwrap_or_else(|_| format!("apache/kafka:{VERSION}"));
    let running = start(&container, &image)?;
    let (host, port, secure_port) = (container.host(), container.port(), container.secure_port());
    let address = format!("{host}:{port}");
    if let Err(error) = wait_until_ready(&address, START) {
        let said =
            [running.stdout_to_vec(), running.stderr_to_vec()].into_iter().flatten().flatten().collect::<Vec<_>>();
        return Err(format!("{error}; the container said:\n{}", String::from_utf8_lossy(&said)).into());
    }
    let files = tempfile::tempdir()?;
    let copy = |from: String, name: &str| -> Result<String> {
        let pem = running.exec(ExecCommand::new(["cat", &from]))?.stdout_to_vec()?;
        let path = files.path().join(name);
        std::fs::write(&path, pem)?;
        Ok(spell(&path))
    };
    let (ca, other) = (copy(container.ca(), "ca.pem")?, copy(container.untrusted_ca(), "other.pem")?);
    println!("{ADDRESS_VARIABLE}={address}\n{SECURE_VARIABLE}={host}:{secure_port}");
    println!("{CA_VARIABLE}={ca}\n{UNTRUSTED_CA_VARIABLE}={other}\n");
    std::io::stdout().flush()?;
    // Whoever started us holds the other end; when it is gone, so is the need for a broker.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The container, running; it is removed when this is dropped.
fn start(container: &Container, image: &str) -> Result<testcontainers::Container<GenericImage>> {
    // A colon before a slash belongs to the registry's port.
    let (name, tag) = match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    };
    let (port, secure_port) = (container.port(), container.secure_port());
    let mut request = GenericImage::new(name, tag)
        .with_entrypoint("/bin/sh")
        .with_cmd(["-c".to_owned(), container.script()])
        .with_mapped_port(port, port.tcp())
        .with_mapped_port(secure_port, secure_port.tcp())
        .with_startup_timeout(PULL);
    if container.host().parse::<std::net::IpAddr>().is_err() {
        request = request.with_host(container.host(), Host::Addr(std::net::Ipv4Addr::LOCALHOST.into()));
    }
    request.start().map_err(|error| {
        let mut text = format!("Docker could not start a container of `{image}`: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        text.push_str(
            "\nStart Docker, and see that `docker pull` gets the image (MILLPOND_TEST_KAFKA_IMAGE names another)",
        );
        text.push_str("; or unset MILLPOND_TEST_KAFKA, and the tests use Java");
        text.into()
    })
}

/// Where ports of containers are reached: at the host of a Docker elsewhere, else here.
fn docker_host(variable: Option<&str>) -> String {
    let elsewhere = variable.and_then(|url| url.strip_prefix("tcp://"));
    let host = elsewhere.and_then(|rest| rest.split(['/', ':']).next()).filter(|host| !host.is_empty());
    host.filter(|host| *host != "localhost").unwrap_or("127.0.0.1").to_owned()
}

fn spell(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_reached_where_docker_is() {
        assert_eq!(docker_host(None), "127.0.0.1");
        assert_eq!(docker_host(Some("unix:///var/run/docker.sock")), "127.0.0.1");
        assert_eq!(docker_host(Some("tcp://localhost:2375")), "127.0.0.1");
        assert_eq!(docker_host(Some("tcp://docker:2376")), "docker");
    }
}
