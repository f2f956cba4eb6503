//! A picture of a report: lines over what was varied, one a series, as SVG.

use super::{Cell, Report, Row};
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 210.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Told apart by those who cannot tell red from green, too (Okabe and Ito).
const COLOURS: &[&str] = &["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Charts, each by the column of its rows: what varies, what is measured, what a line stands for, and the
/// title.
const CHARTS: &[(&str, &[&str], &[&str], &str)] = &[
    ("asked", &["last_s", "known_s"], &["way"], "seconds until tasks were placed, by tasks asked for"),
    ("m", &["load_mean"], &["way", "activity", "where"], "messages a second, by m"),
    ("fault", &["found_fraction", "settled_s"], &[], "found, and seconds to settle, by fault"),
];

/// The report as SVG; an empty picture if there is nothing to draw.
pub fn plot(report: &Report) -> String {
    let has = |name: &str| report.rows.first().is_some_and(|row| row.get(name).is_some());
    let chart = CHARTS.iter().find(|(x, ys, _, _)| has(x) && ys.iter().all(|y| has(y)));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    if let Some((x, ys, series, title)) = chart {
        let title = format!("{title}; {} nodes, seed {}", report.nodes, report.seed);
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{}</text>", escaped(&title));
        draw(&mut svg, &lines(report, x, ys, series), x);
    }
    svg.push_str("</svg>\n");
    svg
}

struct Line {
    name: String,
    points: Vec<(Cell, f64)>,
}

fn lines(report: &Report, x: &str, ys: &[&str], series: &[&str]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for y in ys {
        for row in &report.rows {
            let Some(value) = row.get(y).and_then(Cell::number) else { continue };
            let Some(at) = row.get(x) else { continue };
            let name = name_of(row, series, y, ys.len() > 1);
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((at.clone(), value)),
                None => lines.push(Line { name, points: vec![(at.clone(), value)] }),
            }
        }
    }
    lines
}

fn name_of(row: &Row, series: &[&str], y: &str, several: bool) -> String {
    let mut words: Vec<String> = series.iter().filter_map(|name| row.get(name)).map(Cell::shown).collect();
    if several {
        words.push(y.to_string());
    }
    words.join(", ")
}

fn draw(svg: &mut String, lines: &[Line], x: &str) {
    // Sorted places on the axis: numbers by size on a scale of logarithms, names in their order.
    let mut places: Vec<Cell> = Vec::new();
    for (at, _) in lines.iter().flat_map(|line| &line.points) {
        if !places.contains(at) {
            places.push(at.clone());
        }
    }
    let numbers: Vec<f64> = places.iter().filter_map(Cell::number).filter(|n| *n > 0.0).collect();
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(0.0, f64::max);
    let across = |at: &Cell| -> f64 {
        let share = match at.number() {
            Some(n) if n > 0.0 && high > low => (n / low).ln() / (high / low).ln(),
            Some(_) => 0.0,
            None => {
                let place = places.iter().position(|p| p == at).unwrap_or(0) as f64;
                place / (places.len().max(2) - 1) as f64
            }
        };
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let most = lines.iter().flat_map(|l| &l.points).map(|(_, y)| *y).fold(0.0, f64::max);
    let step = step_for(most);
    let top = (most / step).ceil().max(1.0) * step;
    let up = |y: f64| HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM);
    let mut mark = 0.0;
    while mark <= top + step / 2.0 {
        let (y, end) = (up(mark), WIDTH - RIGHT);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{end}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            super::rounded(mark)
        );
        mark += step;
    }
    for place in &places {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            across(place),
            HEIGHT - BOTTOM + 20.0,
            escaped(&place.shown())
        );
    }
    let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{x}</text>", HEIGHT - 12.0);
    for (i, line) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points: Vec<String> =
            line.points.iter().map(|(at, y)| format!("{:.1},{:.1}", across(at), up(*y))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        for point in &points {
            let (cx, cy) = point.split_once(',').unwrap_or(("0", "0"));
            let _ = writeln!(svg, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let (key, y) = (WIDTH - RIGHT + 20.0, TOP + 10.0 + 20.0 * i as f64);
        let _ = writeln!(
            svg,
            "<rect x=\"{key}\" y=\"{}\" width=\"12\" height=\"4\" fill=\"{colour}\"/><text x=\"{}\" y=\"{y}\">{}</text>",
            y - 6.0,
            key + 18.0,
            escaped(&line.name)
        );
    }
}

/// A round step that makes about five marks.
fn step_for(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= rough).unwrap_or(rough)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_drawn_for_each_way_and_measure() {
        let row = |way: &str, asked: u64, last: f64| {
            Row::default().with("way", way).with("asked", asked).with("last_s", last).with("known_s", last)
        };
        let rows = vec![row("paper", 10, 0.8), row("paper", 1000, 1.4), row("<ours>", 10, 0.6)];
        let svg = plot(&Report { rows, ..Report::default() });
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains("&lt;ours&gt;") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn nothing_to_draw_is_an_empty_picture() {
        assert!(!plot(&Report::default()).contains("polyline"));
    }
}
