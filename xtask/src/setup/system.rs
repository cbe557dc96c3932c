//! What only the platform's package manager can give: compilers, C libraries, Java, pip.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use millpond_kafka_dev::{ErrorKind, Jars};

use crate::cargo::run;
use crate::error::{Error, Result};

/// Something that must be on the machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    /// Reads RocksDB's C header when its bindings are generated.
    Libclang,
    /// Compiles RocksDB.
    Compiler,
    /// Installs prebuilt tools.
    Pip,
    /// Builds librdkafka, with the next three.
    Make,
    PkgConfig,
    OpenSsl,
    Zlib,
    /// Runs a Kafka broker for the tests.
    Java,
    /// Fetches that broker.
    Maven,
}

/// What a package manager calls our needs, in their order.
type Names = [&'static str; 9];

/// Package managers, the command before the package names, and what they call what we need.
const MANAGERS: &[(&str, &str, Names)] = &[
    (
        "apt-get",
        "apt-get install -y --no-install-recommends",
        ["libclang-dev", "g++", "python3-pip", "make", "pkg-config", "libssl-dev", "zlib1g-dev", OLDEST_JAVA, "maven"],
    ),
    (
        "dnf",
        "dnf install -y",
        [
            "clang-devel",
            "gcc-c++",
            "python3-pip",
            "make",
            "pkgconf-pkg-config",
            "openssl-devel",
            "zlib-devel",
            "java-21-openjdk-headless",
            "maven",
        ],
    ),
    (
        "pacman",
        "pacman -S --needed --noconfirm",
        ["clang", "gcc", "python-pip", "make", "pkgconf", "openssl", "zlib", "jre21-openjdk-headless", "maven"],
    ),
    (
        "zypper",
        "zypper install -y",
        [
            "clang-devel",
            "gcc-c++",
            "python3-pip",
            "make",
            "pkgconf-pkg-config",
            "libopenssl-devel",
            "zlib-devel",
            "java-21-openjdk-headless",
            "maven",
        ],
    ),
    (
        "apk",
        "apk add",
        [
            "clang-dev",
            "g++",
            "py3-pip",
            "make",
            "pkgconf",
            "openssl-dev",
            "zlib-dev",
            "openjdk17-jre-headless",
            "maven",
        ],
    ),
];

/// Debian's Java of the oldest release that will do. A newer Debian has only newer ones, behind a name for its default.
const OLDEST_JAVA: &str = "openjdk-17-jre-headless";
const DEFAULT_JAVA: &str = "default-jre-headless";

impl Need {
    fn is_met(self) -> bool {
        match self {
            Self::Libclang => has_libclang(),
            Self::Compiler => {
                let chosen = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
                [chosen.as_str(), "g++", "clang++"].iter().any(|program| answers(program, &["--version"]))
            }
            Self::Pip => answers("python3", &["-m", "pip", "--version"]),
            Self::Make => answers("make", &["--version"]),
            // A Mac's libraries are found without it.
            Self::PkgConfig => cfg!(target_os = "macos") || answers("pkg-config", &["--version"]),
            Self::OpenSsl => has_openssl(),
            Self::Zlib => cfg!(target_os = "macos") || answers("pkg-config", &["--exists", "zlib"]),
            Self::Java => Jars::cached().map_or_else(|error| error.kind() != ErrorKind::Java, |_| true),
            Self::Maven => has_program("mvn"),
        }
    }

    fn package(self, names: Names) -> &'static str {
        let [libclang, compiler, pip, make, pkg_config, openssl, zlib, java, maven] = names;
        match self {
            Self::Libclang => libclang,
            Self::Compiler => compiler,
            Self::Pip => pip,
            Self::Make => make,
            Self::PkgConfig => pkg_config,
            Self::OpenSsl => openssl,
            Self::Zlib => zlib,
            Self::Java => java,
            Self::Maven => maven,
        }
    }
}

/// Installs what is missing, with root on Debian and its kin; elsewhere says what to type.
pub(crate) fn ensure(needs: &[Need]) -> Result<()> {
    let missing = needs.iter().copied().filter(|need| !need.is_met()).collect::<Vec<_>>();
    if missing.is_empty() {
        return Ok(());
    }
    if !(has_program("apt-get") && is_root()) {
        return Err(Error::failed(advice(&missing, MANAGERS.iter().find(|(program, ..)| has_program(program)))));
    }
    apt(&["update", "-q"])?;
    let [(_, _, names), ..] = MANAGERS else { unreachable!("apt-get is the first of the managers") };
    let packages = missing.iter().map(|need| match need.package(*names) {
        OLDEST_JAVA if !answers("apt-cache", &["show", OLDEST_JAVA]) => DEFAULT_JAVA,
        package => package,
    });
    apt(&["install", "-y", "-q", "--no-install-recommends"].into_iter().chain(packages).collect::<Vec<_>>())?;
    match missing.iter().find(|need| !need.is_met()) {
        None => Ok(()),
        Some(need) => Err(Error::failed(format!("apt-get installed its packages, but {need:?} is still not found"))),
    }
}

fn apt(arguments: &[&str]) -> Result<()> {
    run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
        .map_err(|_| Error::failed(format!("`apt-get {}` failed, see above", arguments.join(" "))))
}

/// The one line to type.
fn advice(missing: &[Need], manager: Option<&(&str, &str, Names)>) -> String {
    let names = missing.iter().map(|need| format!("{need:?}")).collect::<Vec<_>>().join(", ");
    match manager {
        Some((_, command, packages)) => {
            let packages = missing.iter().map(|need| need.package(*packages)).collect::<Vec<_>>().join(" ");
            let sudo = if is_root() { "" } else { "sudo " };
            format!("missing on this machine: {names}; type: {sudo}{command} {packages}")
        }
        None if cfg!(target_os = "macos") => {
            let of_brew = missing.iter().filter_map(|need| match need {
                Need::OpenSsl => Some("openssl@3"),
                Need::Java => Some("openjdk@21"),
                Need::Maven => Some("maven"),
                _ => None,
            });
            let of_brew = of_brew.collect::<Vec<_>>();
            let brew = format!("brew install {}", of_brew.join(" "));
            let line = if of_brew.is_empty() { "xcode-select --install" } else { brew.as_str() };
            format!("missing on this machine: {names}; type: {line}")
        }
        None => format!("missing on this machine: {names}; install them with the platform's package manager"),
    }
}

/// Looks where `openssl-sys` looks.
fn has_openssl() -> bool {
    let homebrew = ["/opt/homebrew/opt/openssl@3", "/usr/local/opt/openssl@3"];
    ["OPENSSL_DIR", "OPENSSL_LIB_DIR"].iter().any(|name| std::env::var_os(name).is_some())
        || answers("pkg-config", &["--exists", "openssl"])
        || cfg!(target_os = "macos") && homebrew.iter().any(|path| Path::new(path).is_dir())
}

/// Looks where `clang-sys` looks, which loads the library for bindgen.
fn has_libclang() -> bool {
    if let Some(path) = std::env::var_os("LIBCLANG_PATH") {
        let path = Path::new(&path);
        return is_libclang(path) || holds_libclang(path);
    }
    let found = libclang_directories().iter().any(|directory| holds_libclang(directory));
    // Debian's runtime package has the library without the headers that clang itself needs (`stddef.h`).
    found && (!has_program("dpkg") || has_clang_headers() || answers("clang", &["--version"]))
}

fn libclang_directories() -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let config = std::env::var("LLVM_CONFIG_PATH").unwrap_or_else(|_| "llvm-config".to_owned());
    if let Ok(output) = Command::new(config).arg("--prefix").stderr(Stdio::null()).output() {
        let prefix = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        directories.extend(["lib", "lib64"].map(|library| prefix.join(library)));
    }
    for variable in ["LD_LIBRARY_PATH", "LIBRARY_PATH"] {
        directories.extend(std::env::var_os(variable).iter().flat_map(std::env::split_paths));
    }
    for base in ["/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64"] {
        directories.push(base.into());
        // `lib/x86_64-linux-gnu` and `lib/llvm-14/lib`.
        for below in children(Path::new(base)) {
            directories.push(below.join("lib"));
            directories.push(below);
        }
    }
    if cfg!(target_os = "macos") {
        directories.push("/Library/Developer/CommandLineTools/usr/lib".into());
        directories
            .push("/Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib".into());
        directories.push("/usr/local/opt/llvm/lib".into());
    }
    directories
}

fn has_clang_headers() -> bool {
    let llvms = children(Path::new("/usr/lib")).into_iter().map(|llvm| llvm.join("lib/clang"));
    let versions = llvms.chain(["/usr/lib/clang".into()]).flat_map(|clang| children(&clang));
    versions.into_iter().any(|version| version.join("include/stddef.h").is_file())
}

fn holds_libclang(directory: &Path) -> bool {
    children(directory).iter().any(|file| is_libclang(file))
}

/// `libclang.so`, `libclang-14.so.1` and the like, but not the C++ library.
fn is_libclang(file: &Path) -> bool {
    let Some(name) = file.file_name().and_then(|name| name.to_str()) else { return false };
    let versioned = name.starts_with("libclang.so") || (name.starts_with("libclang-") && name.contains(".so"));
    (versioned || name == "libclang.dylib") && !name.contains("-cpp.") && file.exists()
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_one_line_with_the_package_names_of_the_manager() {
        let missing = [Need::Libclang, Need::Compiler];
        let dnf = MANAGERS.iter().find(|(program, ..)| *program == "dnf");
        let line = advice(&missing, dnf);
        assert!(line.ends_with("dnf install -y clang-devel gcc-c++"), "{line}");
        assert!(!line.contains('\n'));
        assert!(advice(&missing, None).contains("Libclang, Compiler"));
    }

    #[test]
    fn the_cpp_library_is_not_taken_for_libclang() {
        let directory = std::env::temp_dir().join(format!("xtask-libclang-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("libclang-cpp.so.14"), "").unwrap();
        std::fs::write(directory.join("libclangAST.a"), "").unwrap();
        assert!(!holds_libclang(&directory));
        std::fs::write(directory.join("libclang-14.so.13"), "").unwrap();
        assert!(holds_libclang(&directory));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
