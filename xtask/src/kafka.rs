//! `kafka`: a real broker in the background, for a developer's own use, and Kafka's tools.

use millpond_kafka_dev::{ADMIN, Background, Jars, LIMITED, Running};

use crate::cargo::run as run_command;
use crate::error::Result;

/// What `cargo xtask kafka` takes. The numbers are ports.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum KafkaCommand {
    Up(u16),
    Down(u16),
    Kill(u16),
    Start(u16),
    Tool { class: String, arguments: Vec<String> },
}

/// Does what is asked for.
pub(crate) fn run(command: &KafkaCommand) -> Result<()> {
    match command {
        KafkaCommand::Up(port) => show(&Background::at(*port)?.up()?),
        KafkaCommand::Start(port) => show(&Background::at(*port)?.start()?),
        KafkaCommand::Kill(port) => Background::at(*port)?.kill()?,
        KafkaCommand::Down(port) => Background::at(*port)?.down()?,
        KafkaCommand::Tool { class, arguments } => run_command(Jars::resolve()?.tool(class).args(arguments))?,
    }
    Ok(())
}

/// The address alone goes to the standard output, for scripts.
fn show(running: &Running) {
    println!("{}", running.bootstrap);
    let secure = &running.secure;
    eprintln!("secure  {} (SASL_SSL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)", secure.address);
    eprintln!("CA      {}", secure.ca.display());
    eprintln!("users   {} / {} (may do everything)", ADMIN.name, ADMIN.password);
    eprintln!("        {} / {} (may do nothing without ACLs)", LIMITED.name, LIMITED.password);
    eprintln!("log     {}", running.log.display());
}
