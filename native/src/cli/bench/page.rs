//! `bench page`: from the click on Start to the first finished unit, and what was loaded.

use super::browser::Browser;
use super::{home, median, report, rounded, sweep};
use crate::cli::args::BenchCommon;
use crate::cli::failure::Failure;
use crate::cli::processes::LocalSwarm;
use crate::cli::progress::say;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const RUNS: u32 = 5;

pub(super) fn run(common: &BenchCommon) -> Result<u8, Failure> {
    let (mut times, mut bytes) = (Vec::new(), Vec::new());
    for run in 1..=common.runs.unwrap_or(RUNS) {
        // A new browser each time: nothing is cached.
        let home = home()?;
        let swarm = LocalSwarm::start(home.path(), 0, 0, 1)?;
        let client = swarm.client();
        sweep("null", &[], 0, 100_000)?.submit(&client)?;
        let (address, counted) = counting(&swarm.gateway.url)?;
        let mut browser = Browser::launch(home.path())?;
        let tab = browser.open_donate_page(&address)?;
        let millis = browser.evaluate(
            &tab,
            "new Promise(done => { const start = performance.now(); document.querySelector('#start').click(); \
             const units = document.querySelector('#units-done'); \
             const look = () => /[1-9]/.test(units.textContent) ? done(performance.now() - start) : requestAnimationFrame(look); \
             look(); })",
        )?;
        times.push(millis.as_f64().unwrap_or(f64::NAN));
        bytes.push(counted.load(Ordering::Relaxed) as f64);
        if !common.json {
            say(&format!("run {run}: {:.0} ms, {:.0} bytes", times[times.len() - 1], bytes[bytes.len() - 1]));
        }
    }
    report(
        &[("first_unit_ms", rounded(median(times), 0)), ("transferred_bytes", rounded(median(bytes), 0))],
        common,
    )
}

/// A way to the gateway that counts all bytes which come back, headers included.
fn counting(gateway: &str) -> Result<(String, Arc<AtomicU64>), Failure> {
    let failed = |e: std::io::Error| Failure::failed(format!("the counting proxy cannot be set up: {e}"));
    let behind = gateway.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = format!("http://{}/", listener.local_addr().map_err(failed)?);
    let counted = Arc::new(AtomicU64::new(0));
    let counter = counted.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(&behind) else { continue };
            let (Ok(client_in), Ok(server_in)) = (client.try_clone(), server.try_clone()) else { continue };
            let counter = counter.clone();
            std::thread::spawn(move || copy(client_in, server, None));
            std::thread::spawn(move || copy(server_in, client, Some(counter)));
        }
    });
    Ok((address, counted))
}

fn copy(mut from: TcpStream, mut to: TcpStream, counter: Option<Arc<AtomicU64>>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if let Some(counter) = &counter {
            counter.fetch_add(n as u64, Ordering::Relaxed);
        }
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Write));
}
