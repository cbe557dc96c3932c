//! Security of our own connections, read from the same settings that librdkafka's clients get.

use std::collections::BTreeMap;
use std::fmt;

use millpond_broker_api::{Error, ErrorKind, Result};

/// What stands between a connection and plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Security {
    /// `ssl` and `sasl_ssl`.
    pub(crate) tls: Option<Tls>,
    /// `sasl_plaintext` and `sasl_ssl`.
    pub(crate) sasl: Option<Sasl>,
}

/// A file, or its content.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Pem {
    /// Read when a connection is made, so that a renewed one is used.
    File(String),
    /// The content itself.
    Text(String),
}

/// TLS, and whom it trusts.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    /// Whom to trust; `None`: the system's list.
    pub(crate) ca: Option<Pem>,
    /// Our certificate, for brokers that ask for one.
    pub(crate) certificate: Option<Pem>,
    /// Its key.
    pub(crate) key: Option<Pem>,
    /// What the key's file is encrypted with.
    pub(crate) key_password: Option<String>,
    /// Certificate and key in one file, PKCS#12.
    pub(crate) keystore: Option<String>,
    /// What it is encrypted with.
    pub(crate) keystore_password: Option<String>,
    /// Certificates that are trusted no more.
    pub(crate) crl: Option<String>,
    /// As OpenSSL's list.
    pub(crate) ciphers: Option<String>,
    /// Whether the broker's certificate is looked at.
    pub(crate) verifies_certificate: bool,
    /// Whether it must be the host's.
    pub(crate) verifies_host: bool,
}

/// How SASL logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

/// Who logs in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sasl {
    pub(crate) mechanism: Mechanism,
    pub(crate) username: String,
    pub(crate) password: String,
}

const PROTOCOL: &str = "security.protocol";
const MECHANISM: &str = "sasl.mechanism";
const MECHANISMS: &str = "sasl.mechanisms";
const VERIFY: &str = "enable.ssl.certificate.verification";
const VERIFY_HOST: &str = "ssl.endpoint.identification.algorithm";

const READ: &[&str] = &[
    PROTOCOL,
    MECHANISM,
    MECHANISMS,
    VERIFY,
    VERIFY_HOST,
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
];

/// What librdkafka could do and our own connections cannot: half of the clients would work.
const LACKING: &[&str] = &[
    "sasl.kerberos.keytab",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.principal",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.method",
    "ssl.ca.certificate.stores",
    "ssl.engine.id",
    "ssl.engine.location",
    "ssl.providers",
];

impl Security {
    /// Whether this name is one that is read here.
    pub(crate) fn reads(name: &str) -> bool {
        READ.contains(&name)
    }

    /// Checks a value alone; the error says what would be right.
    pub(crate) fn check(name: &str, value: &str) -> std::result::Result<(), String> {
        match name {
            PROTOCOL => layers(value).map(drop),
            MECHANISM | MECHANISMS => mechanism(value).map(drop),
            VERIFY => boolean(value).map(drop),
            VERIFY_HOST => host_check(value).map(drop),
            name if LACKING.contains(&name) => Err("leave it out: Millpond's own connections cannot do it".to_owned()),
            _ => Ok(()),
        }
    }

    /// Reads a client's settings.
    pub(crate) fn of(values: &BTreeMap<&str, &str>) -> Result<Self> {
        let get = |name: &str| values.get(name).copied();
        let (tls, sasl) = layers(get(PROTOCOL).unwrap_or("plaintext")).map_err(|remedy| bad(PROTOCOL, &remedy))?;
        Ok(Self {
            tls: if tls { Some(Tls::of(values)?) } else { None },
            sasl: if sasl { Some(Sasl::of(values)?) } else { None },
        })
    }
}

impl Tls {
    fn of(values: &BTreeMap<&str, &str>) -> Result<Self> {
        let get = |name: &str| values.get(name).filter(|value| !value.is_empty()).map(|value| (*value).to_owned());
        let pem = |text: &str, file: &str| get(text).map(Pem::Text).or_else(|| get(file).map(Pem::File));
        let flag = |name, parse: fn(&str) -> std::result::Result<bool, String>| match values.get(name) {
            Some(value) => parse(value).map_err(|remedy| bad(name, &remedy)),
            None => Ok(true),
        };
        let tls = Self {
            // librdkafka's word for the system's list.
            ca: pem("ssl.ca.pem", "ssl.ca.location").filter(|ca| *ca != Pem::File("probe".to_owned())),
            certificate: pem("ssl.certificate.pem", "ssl.certificate.location"),
            key: pem("ssl.key.pem", "ssl.key.location"),
            key_password: get("ssl.key.password"),
            keystore: get("ssl.keystore.location"),
            keystore_password: get("ssl.keystore.password"),
            crl: get("ssl.crl.location"),
            ciphers: get("ssl.cipher.suites"),
            verifies_certificate: flag(VERIFY, boolean)?,
            verifies_host: flag(VERIFY_HOST, host_check)?,
        };
        match (&tls.certificate, &tls.key) {
            (Some(_), None) => Err(bad("ssl.key.location", "set it, or `ssl.key.pem`: a certificate needs its key")),
            (None, Some(_)) => {
                Err(bad("ssl.certificate.location", "set it, or `ssl.certificate.pem`: a key needs its certificate"))
            }
            _ => Ok(tls),
        }
    }
}

impl Sasl {
    fn of(values: &BTreeMap<&str, &str>) -> Result<Self> {
        let Some(name) = values.get(MECHANISM) else {
            return Err(bad(MECHANISM, "use `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`, as the broker offers"));
        };
        let text = |name| match values.get(name) {
            Some(value) if !value.is_empty() => Ok((*value).to_owned()),
            _ => Err(bad(name, "set it, or choose a `security.protocol` without SASL")),
        };
        Ok(Self {
            mechanism: mechanism(name).map_err(|remedy| bad(MECHANISM, &remedy))?,
            username: text("sasl.username")?,
            password: text("sasl.password")?,
        })
    }
}

impl Mechanism {
    /// The name in the protocol.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// The content may be a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Text(_) => f.write_str("Text"),
        }
    }
}

/// Passwords are not shown.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("ca", &self.ca)
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .field("keystore", &self.keystore)
            .field("verifies_certificate", &self.verifies_certificate)
            .field("verifies_host", &self.verifies_host)
            .finish_non_exhaustive()
    }
}

/// The password is not shown.
impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl")
            .field("mechanism", &self.mechanism)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

fn bad(name: &str, remedy: &str) -> Error {
    Error::new(ErrorKind::Fatal, "read the settings of security").with("key", name).with("remedy", remedy)
}

/// Whether there is TLS, and whether there is SASL.
fn layers(protocol: &str) -> std::result::Result<(bool, bool), String> {
    match protocol.to_ascii_lowercase().as_str() {
        "plaintext" => Ok((false, false)),
        "ssl" => Ok((true, false)),
        "sasl_plaintext" => Ok((false, true)),
        "sasl_ssl" => Ok((true, true)),
        _ => Err(format!("use `plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`, not `{protocol}`")),
    }
}

fn mechanism(name: &str) -> std::result::Result<Mechanism, String> {
    match name.to_ascii_uppercase().as_str() {
        "PLAIN" => Ok(Mechanism::Plain),
        "SCRAM-SHA-256" => Ok(Mechanism::ScramSha256),
        "SCRAM-SHA-512" => Ok(Mechanism::ScramSha512),
        _ => Err(format!("use `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`: `{name}` is not supported")),
    }
}

fn boolean(value: &str) -> std::result::Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Ok(true),
        "false" | "f" | "0" => Ok(false),
        _ => Err(format!("use `true` or `false`, not `{value}`")),
    }
}

/// Java's empty text means the same as librdkafka's `none`.
fn host_check(value: &str) -> std::result::Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "https" => Ok(true),
        "none" | "" => Ok(false),
        _ => Err(format!("use `https` or `none`, not `{value}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(&'static str, &'static str)]) -> Result<Security> {
        Security::of(&rows.iter().copied().collect())
    }

    #[test]
    fn plain_text_is_the_default() {
        assert_eq!(of(&[]).unwrap(), Security::default());
        assert_eq!(of(&[(PROTOCOL, "PLAINTEXT"), ("ssl.ca.location", "ca.pem")]).unwrap(), Security::default());
    }

    #[test]
    fn tls_trusts_whom_it_is_told_to() {
        let tls = of(&[(PROTOCOL, "SSL")]).unwrap().tls.unwrap();
        assert_eq!((&tls.ca, tls.verifies_certificate, tls.verifies_host), (&None, true, true));
        let tls = of(&[
            (PROTOCOL, "ssl"),
            ("ssl.ca.location", "ca.pem"),
            ("ssl.certificate.pem", "C"),
            ("ssl.key.location", "key.pem"),
            (VERIFY_HOST, "none"),
        ])
        .unwrap()
        .tls
        .unwrap();
        assert_eq!(tls.ca, Some(Pem::File("ca.pem".to_owned())));
        assert_eq!(
            (tls.certificate, tls.key),
            (Some(Pem::Text("C".to_owned())), Some(Pem::File("key.pem".to_owned())))
        );
        assert!(tls.verifies_certificate && !tls.verifies_host);
        let tls = of(&[(PROTOCOL, "ssl"), ("ssl.ca.location", "probe"), (VERIFY, "false")]).unwrap().tls.unwrap();
        assert_eq!((tls.ca, tls.verifies_certificate), (None, false));
    }

    #[test]
    fn sasl_needs_a_mechanism_a_name_and_a_password() {
        let all =
            [(PROTOCOL, "sasl_ssl"), (MECHANISM, "scram-sha-512"), ("sasl.username", "ann"), ("sasl.password", "pw")];
        let security = of(&all).unwrap();
        assert!(security.tls.is_some());
        let sasl = security.sasl.unwrap();
        assert_eq!(
            (sasl.mechanism.name(), sasl.username.as_str(), sasl.password.as_str()),
            ("SCRAM-SHA-512", "ann", "pw")
        );
        for left_out in 1..all.len() {
            let rest: Vec<_> = all.iter().copied().filter(|row| row.0 != all[left_out].0).collect();
            let error = of(&rest).unwrap_err();
            assert!(error.to_string().contains(&format!("key=`{}`", all[left_out].0)), "{error}");
        }
        let without_tls = of(&[(PROTOCOL, "SASL_PLAINTEXT"), (MECHANISM, "PLAIN"), all[2], all[3]]).unwrap();
        assert_eq!((without_tls.tls, without_tls.sasl.unwrap().mechanism), (None, Mechanism::Plain));
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for name in ["GSSAPI", "OAUTHBEARER", ""] {
            assert!(Security::check(MECHANISM, name).unwrap_err().contains(&format!("`{name}` is not supported")));
        }
        assert!(Security::check(PROTOCOL, "tls").is_err());
        assert!(Security::check(VERIFY, "maybe").is_err());
        assert!(Security::check(VERIFY_HOST, "http").is_err());
        assert!(Security::check("ssl.engine.id", "x").is_err());
        assert!(Security::check("linger.ms", "x").is_ok(), "others are not ours to check");
    }

    #[test]
    fn certificate_and_key_belong_together() {
        let error = of(&[(PROTOCOL, "ssl"), ("ssl.certificate.location", "c")]).unwrap_err();
        assert!(error.to_string().contains("ssl.key.location"), "{error}");
        let error = of(&[(PROTOCOL, "ssl"), ("ssl.key.pem", "k")]).unwrap_err();
        assert!(error.to_string().contains("ssl.certificate.location"), "{error}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let security = of(&[
            (PROTOCOL, "sasl_ssl"),
            (MECHANISM, "PLAIN"),
            ("sasl.username", "ann"),
            ("sasl.password", "s3cret"),
            ("ssl.certificate.pem", "public"),
            ("ssl.key.pem", "s3cret"),
            ("ssl.key.password", "s3cret"),
            ("ssl.keystore.password", "s3cret"),
        ]);
        let shown = format!("{security:?}");
        assert!(shown.contains("ann") && !shown.contains("s3cret"), "{shown}");
    }
}
