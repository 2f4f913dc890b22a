//! What a client may ask of the broker: `CONNECT host:port`, and nothing that two readers could
//! understand differently.

/// A host name and port in their one canonical form: lowercase, no trailing dot, no address literal.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HostPort {
    host: String,
    port: u16,
}

/// A text that is not `host:port` with a DNS name.
#[derive(Debug, thiserror::Error)]
#[error("not a host name and port such as registry.example:443: {0:?}")]
pub struct NotAHostPort(pub String);

impl HostPort {
    /// The DNS name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl std::str::FromStr for HostPort {
    type Err = NotAHostPort;

    fn from_str(text: &str) -> Result<Self, NotAHostPort> {
        let refuse = || NotAHostPort(text.chars().take(80).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(refuse)?;
        let plain_port = !port.starts_with('0') && port.bytes().all(|byte| byte.is_ascii_digit());
        let port: u16 = port.parse().ok().filter(|_| plain_port).ok_or_else(refuse)?;
        let host = canonical_host(host).ok_or_else(refuse)?;
        Ok(Self { host, port })
    }
}

/// The canonical form of a DNS name; `None` for what is none, address literals of any spelling included.
pub fn canonical_host(host: &str) -> Option<String> {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'))
    };
    let valid = host.len() <= 253 && host.split('.').all(label);
    // A last label of digits, or a hexadecimal number, is an address in the eyes of some resolver.
    let last = host.rsplit('.').next().unwrap_or("");
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (valid && !numeric).then_some(host)
}

/// The most bytes that a request's head may have.
pub const MAX_HEAD: usize = 8 << 10;

/// Why a request is refused, with the status that the client sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub status: u16,
    /// Reason phrase; pip and npm show it, most clients show the status alone.
    pub phrase: &'static str,
    /// For the audit line.
    pub why: String,
}

impl Refusal {
    /// A refusal of something malformed.
    pub fn bad(why: &str) -> Self {
        Self { status: 400, phrase: "Egress-Bad-Request", why: why.to_owned() }
    }

    /// The host or the way to it is not admitted.
    pub fn not_allowed(why: impl Into<String>) -> Self {
        Self { status: 403, phrase: "Egress-Host-Not-Allowed", why: why.into() }
    }

    /// A bound of the window is reached.
    pub fn budget(why: impl Into<String>) -> Self {
        Self { status: 403, phrase: "Egress-Budget-Spent", why: why.into() }
    }
}

/// Reads a whole request head, which ends with an empty line.
pub fn parse_connect(head: &[u8]) -> Result<HostPort, Refusal> {
    let text = std::str::from_utf8(head).map_err(|_| Refusal::bad("the request is not ASCII"))?;
    let body = text.strip_suffix("\r\n\r\n").ok_or_else(|| Refusal::bad("the request head is cut"))?;
    let mut lines = body.split("\r\n");
    let first = lines.next().unwrap_or("");
    if body.bytes().any(|byte| byte == 0 || byte > 126) || body.replace("\r\n", "").contains(['\r', '\n']) {
        return Err(Refusal::bad("the request holds a control character"));
    }
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words[..] else {
        return Err(Refusal::bad("the request line has not three words"));
    };
    if method != "CONNECT" {
        return Err(Refusal {
            status: 405,
            phrase: "Egress-Connect-Only",
            why: "only CONNECT passes; the source must be https".to_owned(),
        });
    }
    if version != "HTTP/1.1" && version != "HTTP/1.0" {
        return Err(Refusal::bad("the protocol is not HTTP/1"));
    }
    let target: HostPort =
        target.parse().map_err(|_| Refusal::not_allowed("the target is not a host name and port"))?;
    for line in lines {
        check_header(line, &target)?;
    }
    Ok(target)
}

fn check_header(line: &str, target: &HostPort) -> Result<(), Refusal> {
    let (name, value) = line.split_once(':').ok_or_else(|| Refusal::bad("a header without a colon"))?;
    let token =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !token {
        return Err(Refusal::bad("a header whose name is none"));
    }
    let value = value.trim_matches([' ', '\t']);
    match name.to_ascii_lowercase().as_str() {
        "host" => {
            let same = value.parse::<HostPort>().is_ok_and(|host| host == *target)
                || canonical_host(value).as_deref() == Some(target.host());
            if same { Ok(()) } else { Err(Refusal::bad("Host and target differ")) }
        }
        "transfer-encoding" => Err(Refusal::bad("a body on CONNECT")),
        "content-length" if value != "0" => Err(Refusal::bad("a body on CONNECT")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(target: &str) -> Result<HostPort, Refusal> {
        parse_connect(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes())
    }

    #[test]
    fn a_plain_connect_names_its_target_in_canonical_form() {
        let target = connect("Registry.Example.:443").unwrap();
        assert_eq!((target.host(), target.port()), ("registry.example", 443));
    }

    #[test]
    fn no_spelling_of_an_address_is_a_host() {
        for target in [
            "1.2.3.4:443",
            "[::1]:443",
            "2130706433:443",
            "0x7f000001:443",
            "127.1:443",
            "0x7f.1:443",
            "169.254.169.254:80",
            "::1:443",
            "a.0x7f:443",
        ] {
            assert_eq!(connect(target).unwrap_err().status, 403, "{target}");
        }
    }

    #[test]
    fn ports_are_plain_numbers() {
        for target in
            ["host.example", "host.example:", "host.example:0443", "host.example:65536", "host.example:+443"]
        {
            assert!(connect(target).is_err(), "{target}");
        }
    }

    #[test]
    fn user_names_nul_and_odd_labels_are_refused() {
        for target in [
            "user@host.example:443",
            "host\0.example:443",
            "-a.example:443",
            "a..example:443",
            "a%00.example:443",
        ] {
            assert!(connect(target).is_err(), "{target:?}");
        }
    }

    #[test]
    fn other_methods_are_told_that_only_connect_passes() {
        for line in ["GET http://host.example/ HTTP/1.1", "POST http://host.example/ HTTP/1.1"] {
            let refusal = parse_connect(format!("{line}\r\n\r\n").as_bytes()).unwrap_err();
            assert_eq!((refusal.status, refusal.phrase), (405, "Egress-Connect-Only"));
        }
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        for head in [
            "CONNECT host.example:443 HTTP/1.1\nHost: host.example\r\n\r\n",
            "CONNECT host.example:443 HTTP/1.1\r\n Host: host.example\r\n\r\n",
            "CONNECT host.example:443 HTTP/1.1\r\nHost: other.example\r\n\r\n",
            "CONNECT host.example:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "CONNECT host.example:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
            "CONNECT  host.example:443 HTTP/1.1\r\n\r\n",
            "CONNECT host.example:443 HTTP/2\r\n\r\n",
            "CONNECT host.example:443 HTTP/1.1\r\nbad name: x\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
        ] {
            assert!(parse_connect(head.as_bytes()).is_err(), "{head:?}");
        }
    }
}
