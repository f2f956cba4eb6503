use super::*;

fn hosts(bound: &str, public: &[&str]) -> Hosts {
    let public: Vec<String> = public.iter().map(ToString::to_string).collect();
    Hosts::new(bound.parse().unwrap(), &public).unwrap()
}

fn request(uri: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(axum::body::Body::empty()).unwrap()
}

/// The status with which the guard turns this away, if it does.
fn refusal(hosts: &Hosts, headers: &[(&str, &str)]) -> Option<u16> {
    host_fault(hosts, &request("/", headers)).map(|problem| problem.parts().0)
}

#[test]
fn a_gateway_on_loopback_answers_to_loopback_names_only() {
    let hosts = hosts("127.0.0.1:8080", &[]);
    for host in
        ["127.0.0.1:8080", "localhost:8080", "LocalHost", "[::1]:8080", "127.0.0.1:9000", "localhost."]
    {
        assert_eq!(refusal(&hosts, &[("host", host)]), None, "{host}");
    }
    // The names that DNS rebinding uses, and an address that is somebody else's.
    for host in ["evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.1.5:8080"]
    {
        assert_eq!(refusal(&hosts, &[("host", host)]), Some(403), "{host}");
    }
}

#[test]
fn a_gateway_on_every_address_answers_to_addresses_and_public_hosts() {
    let hosts = hosts("0.0.0.0:8080", &["Compute.example.org", "other.example.org:8443"]);
    for host in
        ["192.168.1.5:8080", "compute.example.org", "compute.example.org:444", "other.example.org:8443"]
    {
        assert_eq!(refusal(&hosts, &[("host", host)]), None, "{host}");
    }
    for host in ["other.example.org", "example.org", "x.compute.example.org"] {
        assert_eq!(refusal(&hosts, &[("host", host)]), Some(403), "{host}");
    }
}

#[test]
fn a_request_names_exactly_one_host() {
    let hosts = hosts("127.0.0.1:8080", &[]);
    assert_eq!(refusal(&hosts, &[]), Some(400));
    assert_eq!(refusal(&hosts, &[("host", "localhost"), ("host", "evil.example")]), Some(400));
    for host in ["", "a b", "user@localhost", "localhost:", "localhost:99999", "localhost/x"] {
        assert_eq!(refusal(&hosts, &[("host", host)]), Some(400), "{host:?}");
    }
}

#[test]
fn the_name_in_the_request_line_counts_too() {
    let hosts = hosts("127.0.0.1:8080", &[]);
    let fault =
        host_fault(&hosts, &request("http://evil.example/api/v1/jobs", &[("host", "localhost:8080")]));
    assert_eq!(fault.unwrap().parts().0, 403);
}

#[test]
fn only_the_gateways_own_pages_may_ask() {
    let hosts = hosts("127.0.0.1:8080", &["compute.example.org"]);
    let from = |host, origin| refusal(&hosts, &[("host", host), ("origin", origin)]);
    assert_eq!(from("localhost:8080", "http://localhost:8080"), None);
    assert_eq!(from("compute.example.org", "https://compute.example.org"), None);
    assert_eq!(from("compute.example.org:443", "https://compute.example.org"), None);
    // Behind a proxy that passes its own idea of the host.
    assert_eq!(from("127.0.0.1:8080", "https://compute.example.org"), None);

    for origin in [
        "http://localhost:3000",
        "http://127.0.0.1:8080", // the same machine, but another origin to the browser
        "http://evil.example",
        "https://localhost",
        "null",
        "localhost:8080",
        "chrome-extension://abcdef",
        "",
    ] {
        assert_eq!(from("localhost:8080", origin), Some(403), "{origin:?}");
    }
    let two = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")];
    assert_eq!(refusal(&hosts, &two), Some(400));
}

#[test]
fn a_public_host_is_a_name_not_a_url() {
    assert_eq!(public_host("Compute.Example.org").unwrap(), ("compute.example.org".into(), None));
    assert_eq!(public_host("compute.example.org:8443").unwrap(), ("compute.example.org".into(), Some(8443)));
    for text in ["https://compute.example.org", "", "compute.example.org/x", "*.example.org:x"] {
        assert!(public_host(text).unwrap_err().contains("host name"), "{text}");
    }
}

#[test]
fn a_bearer_token_is_found_however_the_scheme_is_written() {
    assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
    assert_eq!(bearer(b"bearer  abc "), Some(&b"abc"[..]));
    for value in [&b"abc"[..], b"Basic abc", b"Bearer", b"Bearer ", b"Bearerabc", b""] {
        assert_eq!(bearer(value), None);
    }
}
