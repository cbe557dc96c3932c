//! The secure listener: its users, and certificates made by the JDK's keytool.

use std::path::{Path, PathBuf};

use crate::cache::{cache, publish};
use crate::error::{ErrorKind, Result};
use crate::jars::{Jars, run};

/// A user that every broker started here knows. The passwords protect nothing but tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct User {
    /// The name to log in with.
    pub name: &'static str,
    /// The password to log in with.
    pub password: &'static str,
}

/// May do everything.
pub const ADMIN: User = User { name: "admin", password: "admin-secret" };

/// Can log in, and may do nothing until it is given ACLs.
pub const LIMITED: User = User { name: "limited", password: "limited-secret" };

/// How to reach a secure listener.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Secure {
    /// `HOST:PORT`.
    pub address: String,
    /// The PEM file of the authority that signed the listener's certificate.
    pub ca: PathBuf,
    /// The PEM file of another authority, which has signed nothing here: with it the listener must not be trusted.
    pub untrusted_ca: PathBuf,
}

/// The password of the key stores, which lie beside each other for the one broker that reads them.
pub(crate) const STORE_PASSWORD: &str = "millpond";

/// The files of the certificates: one authority for all brokers of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    home: PathBuf,
}

impl Certificates {
    /// Those in the cache, made first if they are not there.
    pub(crate) fn ensure(jars: &Jars) -> Result<Self> {
        // The number counts changes of what is made below.
        let home = cache()?.join("kafka-certificates-1");
        publish(&home, |stage| make(jars, stage))?;
        Ok(Self { home })
    }

    /// The broker's key, its certificate and the authority's.
    pub(crate) fn store(&self) -> PathBuf {
        self.home.join("server.p12")
    }

    pub(crate) fn secure(&self, address: String) -> Secure {
        Secure { address, ca: self.home.join("ca.pem"), untrusted_ca: self.home.join("other.pem") }
    }
}

fn make(jars: &Jars, dir: &Path) -> Result<()> {
    for arguments in steps("dns:localhost,ip:127.0.0.1") {
        let mut keytool = jars.keytool();
        keytool.current_dir(dir).args(arguments.split_whitespace());
        run(&mut keytool, ErrorKind::Java, "keytool could not make the certificates")?;
    }
    Ok(())
}

/// What keytool is called with, in order, for a certificate by these names. Certificates are valid from yesterday, for
/// clocks that differ.
pub(crate) fn steps(names: &str) -> Vec<String> {
    const PAIR: &str = "-storetype PKCS12 -keyalg EC -groupname secp256r1 -startdate -1d -validity 3650";
    const AUTHORITY: &str = "-ext bc:c=ca:true -ext ku:c=keyCertSign,cRLSign";
    let steps = [
        format!("-genkeypair -alias ca -keystore ca.p12 -dname CN=millpond-test-ca {PAIR} {AUTHORITY}"),
        "-exportcert -rfc -alias ca -keystore ca.p12 -file ca.pem".to_owned(),
        format!("-genkeypair -alias other -keystore other.p12 -dname CN=millpond-other-ca {PAIR} {AUTHORITY}"),
        "-exportcert -rfc -alias other -keystore other.p12 -file other.pem".to_owned(),
        format!("-genkeypair -alias server -keystore server.p12 -dname CN=millpond-test-broker {PAIR}"),
        "-certreq -alias server -keystore server.p12 -file server.csr".to_owned(),
        format!(
            "-gencert -rfc -alias ca -keystore ca.p12 -infile server.csr -outfile server.pem -startdate -1d \
             -validity 3650 -ext san={names} -ext eku=serverAuth"
        ),
        "-importcert -noprompt -alias ca -keystore server.p12 -file ca.pem".to_owned(),
        "-importcert -noprompt -alias server -keystore server.p12 -file server.pem".to_owned(),
    ];
    steps.map(|step| format!("{step} -storepass {STORE_PASSWORD}")).to_vec()
}
