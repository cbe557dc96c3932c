//! The broker's configuration, as text.

use std::collections::BTreeMap;
use std::path::Path;

use crate::secure::{ADMIN, LIMITED, STORE_PASSWORD};

/// The ports of a broker's listeners.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ports {
    pub(crate) plain: u16,
    pub(crate) secure: u16,
    pub(crate) controller: u16,
}

/// Where a broker listens, and where its clients find it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listeners<'a> {
    pub(crate) ports: Ports,
    /// The address of the interface that it listens on.
    pub(crate) bind: &'a str,
    /// What clients connect to.
    pub(crate) host: &'a str,
}

impl Listeners<'static> {
    /// For a broker that only this machine reaches.
    pub(crate) fn local(ports: Ports) -> Self {
        Self { ports, bind: LOCAL, host: LOCAL }
    }
}

/// The one interface that only this machine reaches.
pub(crate) const LOCAL: &str = "127.0.0.1";

/// What is the same for every broker.
const COMMON: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"),
    // Who may do what. The plaintext listener's clients are all called ANONYMOUS, and so is the node itself.
    ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ("super.users", "User:ANONYMOUS;User:admin"),
    ("allow.everyone.if.no.acl.found", "false"),
    ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
    ("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", SCRAM),
    ("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config", SCRAM),
    ("ssl.keystore.type", "PKCS12"),
    ("ssl.keystore.password", STORE_PASSWORD),
    ("ssl.client.auth", "none"),
    // One node keeps everything once, in few partitions: each costs files and time at the start.
    ("num.partitions", "1"),
    // As on most clusters: that nothing is created by accident is up to the clients.
    ("auto.create.topics.enable", "true"),
    ("offsets.topic.replication.factor", "1"),
    ("offsets.topic.num.partitions", "5"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("transaction.state.log.num.partitions", "5"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    // What a test waits for comes soon: rebalances, retention, compaction, the end of abandoned transactions.
    ("group.initial.rebalance.delay.ms", "0"),
    ("log.initial.task.delay.ms", "500"),
    ("log.retention.check.interval.ms", "1000"),
    ("log.segment.delete.delay.ms", "1000"),
    ("log.cleaner.backoff.ms", "250"),
    ("log.cleaner.dedupe.buffer.size", "16777216"),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000"),
    // A killed broker is back before its former self is given up, unless that is soon.
    ("broker.heartbeat.interval.ms", "500"),
    ("broker.session.timeout.ms", "3000"),
];

const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required;";

/// The text of a `server.properties`. What the caller adds comes last and wins.
pub(crate) fn render(listeners: Listeners<'_>, dir: &Path, key_store: &Path, more: &[(String, String)]) -> String {
    let Listeners { ports: Ports { plain, secure, controller }, bind, host } = listeners;
    let clients = |at: &str| format!("PLAINTEXT://{at}:{plain},SASL_SSL://{at}:{secure}");
    let users = [ADMIN, LIMITED].map(|user| format!(" user_{}=\"{}\"", user.name, user.password)).concat();
    let plain_login = format!("org.apache.kafka.common.security.plain.PlainLoginModule required{users};");
    let own = [
        ("controller.quorum.voters", format!("1@{LOCAL}:{controller}")),
        ("listeners", format!("{},CONTROLLER://{LOCAL}:{controller}", clients(bind))),
        ("advertised.listeners", clients(host)),
        ("log.dirs", dir.join("logs").display().to_string()),
        ("ssl.keystore.location", key_store.display().to_string()),
        ("listener.name.sasl_ssl.plain.sasl.jaas.config", plain_login),
    ];
    let mut all = COMMON.iter().map(|&(name, value)| (name, value.to_owned())).collect::<BTreeMap<_, _>>();
    all.extend(own);
    all.extend(more.iter().map(|(name, value)| (name.as_str(), value.clone())));
    all.iter().map(|(name, value)| format!("{name}={}\n", escape(value))).collect()
}

/// A value as Java's properties have it: a backslash is an escape, and a line's end ends the value.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n")
}

/// The credentials that formatting writes for SCRAM, as its options.
pub(crate) fn scram_options() -> Vec<String> {
    let credential = |mechanism: &str, name: &str, password: &str| {
        ["--add-scram".to_owned(), format!("{mechanism}=[name={name},password={password}]")]
    };
    let mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
    let users = [ADMIN, LIMITED];
    let all = users.iter().flat_map(|user| mechanisms.map(|it| credential(it, user.name, user.password)));
    all.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports { plain: 101, secure: 102, controller: 103 };

    fn rendered(more: &[(&str, &str)]) -> Vec<String> {
        let more = more.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>();
        let text = render(Listeners::local(PORTS), Path::new("/data"), Path::new("/keys/server.p12"), &more);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn listeners_have_their_ports_and_the_controllers_is_not_advertised() {
        let lines = rendered(&[]);
        let clients = "PLAINTEXT://127.0.0.1:101,SASL_SSL://127.0.0.1:102";
        assert!(lines.contains(&format!("listeners={clients},CONTROLLER://127.0.0.1:103")), "{lines:?}");
        assert!(lines.contains(&format!("advertised.listeners={clients}")), "{lines:?}");
        assert!(lines.contains(&"controller.quorum.voters=1@127.0.0.1:103".to_owned()), "{lines:?}");
        assert!(lines.contains(&"log.dirs=/data/logs".to_owned()), "{lines:?}");
    }

    #[test]
    fn a_broker_may_listen_elsewhere_than_its_clients_connect() {
        let listeners = Listeners { ports: PORTS, bind: "0.0.0.0", host: "docker" };
        let text = render(listeners, Path::new("/data"), Path::new("/keys/server.p12"), &[]);
        assert!(text.contains("listeners=PLAINTEXT://0.0.0.0:101,SASL_SSL://0.0.0.0:102,CONTROLLER://127.0.0.1:103\n"));
        assert!(text.contains("advertised.listeners=PLAINTEXT://docker:101,SASL_SSL://docker:102\n"), "{text}");
    }

    #[test]
    fn what_the_caller_sets_replaces_ours() {
        let lines = rendered(&[("num.partitions", "7"), ("message.max.bytes", "9"), ("num.partitions", "8")]);
        assert_eq!(lines.iter().filter(|line| line.starts_with("num.partitions=")).count(), 1);
        assert!(lines.contains(&"num.partitions=8".to_owned()) && lines.contains(&"message.max.bytes=9".to_owned()));
    }

    #[test]
    fn a_value_stays_on_its_line() {
        assert!(rendered(&[("a", "b\\c\nd=e")]).contains(&"a=b\\\\c\\nd=e".to_owned()));
    }

    #[test]
    fn both_users_can_log_in_by_every_mechanism() {
        let text = rendered(&[]).join("\n");
        let scram = scram_options().join(" ");
        for user in [ADMIN, LIMITED] {
            let plain = format!("user_{}=\"{}\"", user.name, user.password);
            assert!(text.contains(&plain), "{text}");
            for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
                let option = format!("--add-scram {mechanism}=[name={},password={}]", user.name, user.password);
                assert!(scram.contains(&option), "{scram}");
            }
        }
    }
}
