use super::events::next_event;
use super::*;
use std::io::BufReader;

#[test]
fn addresses_are_taken_as_people_have_them_at_hand() {
    let ok = |text: &str| gateway_url(text).unwrap();
    assert_eq!(ok("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
    assert_eq!(ok("http://127.0.0.1:8080/dashboard#token=abc"), "http://127.0.0.1:8080");
    assert_eq!(ok(" hands.example:80/ "), "http://hands.example:80");
    assert_eq!(ok("http://[::1]:8080"), "http://[::1]:8080");
    for bad in ["", "http://", "https://x", "ftp://x", "http://me:secret@x", "http://a b"] {
        assert!(gateway_url(bad).is_err(), "{bad}");
    }
    assert!(gateway_url("https://x").unwrap_err().contains("plain HTTP"));
}

#[test]
fn a_proxy_never_stands_between_programs_of_one_machine() {
    for here in ["http://127.0.0.1:1", "http://localhost", "http://[::1]:1", "http://127.9.9.9"] {
        assert!(is_loopback(here), "{here}");
    }
    assert!(!is_loopback("http://10.0.0.1") && !is_loopback("http://localhost.example"));
}

#[test]
fn events_are_told_apart_from_signs_of_life() {
    let stream = ": alive\n\nevent: nodes\ndata: {}\n\nevent: job\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\nevent: job\ndata: cut";
    let mut lines = BufReader::new(stream.as_bytes());
    assert_eq!(next_event(&mut lines, "job").unwrap().as_deref(), Some("{\"a\":\n1}"));
    assert_eq!(next_event(&mut lines, "job").unwrap(), None, "half an event is none");
}

#[test]
fn an_event_without_an_end_is_refused() {
    let endless = vec![b'x'; 5 << 20];
    assert!(next_event(&mut BufReader::new(&endless[..]), "job").is_err());
}

/// A gateway that says one thing to everything, on a port of its own.
fn gateway(answer: &'static str) -> String {
    use std::io::{BufRead, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

fn failure_of(url: String, token: Option<&str>) -> Failure {
    let client = Client::new(Endpoint { url, token: token.map(str::to_owned) });
    client.job("abcd").map(|_| ()).unwrap_err().into()
}

#[test]
fn problems_reach_the_person_in_the_gateways_words() {
    let url = gateway(
        "HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\r\n\
         {\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,\"detail\":\"no job abcd here; see `jobs`\"}",
    );
    assert_eq!(failure_of(url, None), Failure::usage("no job abcd here; see `jobs`"));
}

#[test]
fn a_missing_and_a_wrong_token_are_two_things() {
    let url = gateway("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let missing = failure_of(url.clone(), None);
    assert!(missing.code == 2 && missing.message.contains("MANYHANDS_TOKEN"), "{missing:?}");
    let wrong = failure_of(url, Some("wrong"));
    assert!(wrong.code == 2 && wrong.message.contains("does not accept this token"), "{wrong:?}");
}

/// A command that waits for a job goes on when the operator replaces the token.
#[test]
fn a_token_that_was_replaced_is_looked_up_again_once() {
    let old = gateway("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let new = gateway(
        "HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n{\"status\":404,\"detail\":\"it knows the new one\"}",
    );
    let at = |url: &String, token: &str| Endpoint { url: url.clone(), token: Some(token.into()) };
    let (then, now) = (at(&old, "old"), at(&new, "new"));
    let client = Client::new(then.clone()).patient(Some(Box::new(move || Some(now.clone()))));
    let failure = Failure::from(client.job("abcd").map(|_| ()).unwrap_err());
    assert!(failure.message.contains("it knows the new one"), "{failure:?}");
    let client = Client::new(then.clone()).patient(Some(Box::new(move || Some(then.clone()))));
    let failure = Failure::from(client.job("abcd").map(|_| ()).unwrap_err());
    assert!(failure.message.contains("does not accept this token"), "{failure:?}");
}

#[test]
fn somebody_else_on_the_port_is_no_gateway() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>a router's page</html>",
        "HTTP/1.1 302 Found\r\nlocation: /login\r\nconnection: close\r\n\r\n",
        "SSH-2.0-OpenSSH_9.6\r\n",
    ] {
        let failure = failure_of(gateway(answer), None);
        assert_eq!(failure.code, 3, "{answer}: {failure:?}");
    }
}

#[test]
fn nobody_there_is_exit_code_3_with_what_to_do() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let failure = failure_of(format!("http://127.0.0.1:{port}"), None);
    assert_eq!(failure.code, 3);
    assert!(failure.message.contains("nothing listens there"), "{}", failure.message);
    assert!(failure.message.contains("manyhands up --gateway"), "{}", failure.message);
}
