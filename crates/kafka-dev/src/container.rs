//! The same broker in a container of Kafka's own image: what to run in it, not how.

use std::path::Path;

use crate::config::{Listeners, Ports, render, scram_options};
use crate::error::Result;
use crate::secure::steps;
use crate::site::{cluster_id, free_ports};

/// A broker for a container of the image `apache/kafka`, or of any that has `sh`, Java and Kafka's jars.
///
/// It listens on the same ports inside as outside, on all interfaces. It calls itself as its clients call it, so inside
/// too [`host`](Self::host) must lead to it.
#[derive(Clone, Debug)]
pub struct Container {
    host: String,
    ports: Ports,
}

impl Container {
    /// Where the image has Kafka's jars; the variable `KAFKA_LIBS` says otherwise.
    const LIBS: &str = "/opt/kafka/libs";
    /// Where the broker keeps its files, inside.
    const DIR: &str = "/tmp/millpond-kafka";

    /// A broker that clients reach as `host`, on ports that are free here.
    pub fn new(host: &str) -> Result<Self> {
        Ok(Self { host: host.to_owned(), ports: free_ports()? })
    }

    /// The name or address by which clients reach it.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port of the plaintext listener.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.plain
    }

    /// The port of the listener with TLS and SASL.
    #[must_use]
    pub fn secure_port(&self) -> u16 {
        self.ports.secure
    }

    /// The PEM file, inside, of the authority that signed the broker's certificate.
    #[must_use]
    pub fn ca(&self) -> String {
        format!("{}/ca.pem", Self::DIR)
    }

    /// The PEM file, inside, of an authority that did not.
    #[must_use]
    pub fn untrusted_ca(&self) -> String {
        format!("{}/other.pem", Self::DIR)
    }

    /// What `sh` is to run: it makes the certificates, formats a directory and becomes the broker.
    #[must_use]
    pub fn script(&self) -> String {
        let (dir, libs) = (Self::DIR, Self::LIBS);
        let is_address = self.host.parse::<std::net::IpAddr>().is_ok();
        let names = format!("dns:localhost,{}:{}", if is_address { "ip" } else { "dns" }, self.host);
        let keytool = steps(&names).iter().map(|step| format!("keytool {step}\n")).collect::<String>();
        let listeners = Listeners { ports: self.ports, bind: "0.0.0.0", host: &self.host };
        let properties = render(listeners, Path::new(dir), &Path::new(dir).join("server.p12"), &[]);
        let scram = scram_options().iter().map(|option| format!(" '{option}'")).collect::<String>();
        let java =
            "java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp \"${KAFKA_LIBS:-".to_owned() + libs + "}/*\"";
        let id = cluster_id();
        format!(
            "set -eu\nmkdir -p {dir}\ncd {dir}\n{keytool}cat > server.properties <<'END'\n{properties}END\n\
             {java} kafka.tools.StorageTool format -t {id} -c server.properties{scram}\n\
             exec {java} kafka.Kafka server.properties\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_makes_a_broker_by_the_hosts_name() {
        let container = Container::new("docker").unwrap();
        let script = container.script();
        assert!(script.contains("-ext san=dns:localhost,dns:docker "), "{script}");
        assert!(script.contains(&format!("advertised.listeners=PLAINTEXT://docker:{}", container.port())), "{script}");
        assert!(Container::new("127.0.0.1").unwrap().script().contains("san=dns:localhost,ip:127.0.0.1 "));
    }
}
