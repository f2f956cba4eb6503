use super::*;

const GOOD: &str = r#"
about = "a test"
nodes = 100

[network]
latency = { constant_ms = 200 }
bandwidth_kbps = 1000

[tree]
m = 4
k = 2

[discovery]
ways = ["paper", "ours"]
asked = [10, "all"]
"#;

/// Error of the scenario when `line` is replaced by `instead`.
fn refused(line: &str, instead: &str) -> String {
    assert!(GOOD.contains(line), "{line:?} stands in it");
    Scenario::read(&GOOD.replace(line, instead)).expect_err(instead)
}

#[test]
fn a_scenario_is_read_as_it_is_meant() {
    let scenario = Scenario::read(GOOD).unwrap();
    let network = scenario.network();
    assert!(matches!(network.latency, Latency::Constant(200_000)));
    assert_eq!((network.bandwidth, scenario.k(), scenario.seeds.as_slice()), (1_000_000, 2, &[1][..]));
    let asked: Vec<u32> = scenario.discovery.unwrap().asked.iter().map(|asked| asked.of(100)).collect();
    assert_eq!(asked, [10, 100]);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let cases = [
        ("nodes = 100", "nodes = 100\nnoodles = 3", "line 4", "noodles"),
        ("nodes = 100", "nodes = 0", "line 3", "0 is not between 1 and 4000000"),
        ("nodes = 100", "nodes = -7", "line 3", "-7 is not between"),
        ("nodes = 100", "nodes = \"many\"", "line 3", "string"),
        ("m = 4", "m = 400", "line 10", "400 is not between 2 and 64"),
        ("k = 2", "k = 1", "line 11", "between m/2 and m = 4"),
        ("k = 2", "k = 5", "line 11", "between m/2 and m = 4"),
        ("{ constant_ms = 200 }", "{ constant_ms = -1 }", "line 6", "-1 is not a time"),
        ("{ constant_ms = 200 }", "{ uniform_ms = [9, 3] }", "line 6", "9 is above 3"),
        ("{ constant_ms = 200 }", "{ uniform_ms = [1, 2, 3] }", "line 6", "two ends"),
        ("{ constant_ms = 200 }", "{ constant_m = 1 }", "line 6", "constant_m"),
        ("{ constant_ms = 200 }", "{ regions = { ms = [[1, 2]] } }", "line 6", "square"),
        ("[\"paper\", \"ours\"]", "[\"mine\"]", "line 14", "mine"),
        ("[10, \"all\"]", "[10, \"most\"]", "line 15", "most"),
        ("[10, \"all\"]", "[4294967296]", "line 15", "not a number of tasks"),
    ];
    for (line, instead, place, words) in cases {
        let error = refused(line, instead);
        assert!(error.contains(place), "{instead}: {place} is named in {error:?}");
        assert!(error.contains(words), "{instead}: {words} is named in {error:?}");
    }
}

#[test]
fn a_scenario_is_about_one_thing() {
    let error = refused("[discovery]", "[churn]\nfault = []\nasked = 0.1\n[discovery]");
    assert!(
        error
            .contains("one of [discovery], [traffic], [churn], [guests], [ring], [market] and [matchmaking]"),
        "{error}"
    );
    assert!(Scenario::read("nodes = 5\nabout = ''").is_err());
}
