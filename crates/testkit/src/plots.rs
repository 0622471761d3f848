//! Plots as SVG, without anything that depends on the machine.

use std::fmt::Write;

/// Width and height of a plot, and the space around its area, in pixels.
const SIZE: (f64, f64) = (720.0, 360.0);
const MARGIN: (f64, f64, f64, f64) = (60.0, 20.0, 50.0, 20.0);
const COLOURS: [&str; 4] = ["#b03a2e", "#1f618d", "#239b56", "#7d6608"];
/// About the number of lines of the grid in each direction.
const LINES: f64 = 5.0;

/// Points with a name.
pub struct Series {
    /// As the legend has it.
    pub name: String,
    /// In the units of the axes.
    pub points: Vec<(f64, f64)>,
    /// What is written beside each point; may be empty.
    pub labels: Vec<String>,
}

/// A plot of some series.
pub struct Plot<'a> {
    /// Its heading.
    pub title: &'a str,
    /// What the horizontal axis shows.
    pub x: &'a str,
    /// What the vertical axis shows.
    pub y: &'a str,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// The range of an axis: from zero, or from below the least value, to above the largest.
fn range(values: impl Iterator<Item = f64> + Clone, from_zero: bool) -> (f64, f64) {
    let most = values.clone().fold(f64::MIN, f64::max);
    let least = values.fold(f64::MAX, f64::min);
    let space = (most - least).max(most.abs() * 0.01).max(1e-9) * 0.08;
    (if from_zero { 0.0 } else { least - space }, most + space)
}

/// The values of an axis at which there is a line of the grid: multiples of 1, 2 or 5 times a power of ten. With the decimals that they need.
fn ticks((least, most): (f64, f64)) -> (Vec<f64>, usize) {
    let wanted = (most - least) / LINES;
    let power = wanted.log10().floor();
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * 10f64.powf(power));
    let step = steps.into_iter().find(|step| *step >= wanted).unwrap_or(wanted);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let first = (least / step).ceil() as i64;
    let last = (most / step).floor() as i64;
    ((first..=last).map(|tick| tick as f64 * step).collect(), decimals)
}

/// A rectangle in pixels: left, top, right and bottom.
#[derive(Clone, Copy)]
struct Area(f64, f64, f64, f64);

impl Area {
    /// About what a text covers that begins at a point.
    fn of_text(text: &str, (x, y): (f64, f64)) -> Self {
        Self(x, y - 10.0, x + 7.0 * text.chars().count() as f64, y + 2.0)
    }

    fn of_point((x, y): (f64, f64)) -> Self {
        Self(x - 3.0, y - 3.0, x + 3.0, y + 3.0)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.0 < other.2 && other.0 < self.2 && self.1 < other.3 && other.1 < self.3
    }
}

/// Where the label of a point begins: beside it where nothing else is, else right above it.
fn place_of_label(label: &str, (x, y): (f64, f64), taken: &[Area]) -> (f64, f64) {
    let left = x - 6.0 - 7.0 * label.chars().count() as f64;
    let places = [
        (x + 6.0, y - 6.0),
        (x + 6.0, y + 14.0),
        (left, y - 6.0),
        (left, y + 14.0),
        (x + 10.0, y + 4.0),
        (left - 4.0, y + 4.0),
    ];
    let is_free = |place: &(f64, f64)| {
        let area = Area::of_text(label, *place);
        area.2 <= SIZE.0 && !taken.iter().any(|other| area.overlaps(other))
    };
    places.into_iter().find(is_free).unwrap_or((x + 6.0, y - 6.0))
}

impl Plot<'_> {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self, from_zero: bool) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (x, y) = (
            range(points().map(|point| point.0), from_zero),
            range(points().map(|point| point.1), from_zero),
        );
        let (left, top, bottom, right) = (MARGIN.0, MARGIN.1 + 20.0, SIZE.1 - MARGIN.2, SIZE.0 - MARGIN.3);
        let at = |point: (f64, f64)| {
            (
                left + (point.0 - x.0) / (x.1 - x.0) * (right - left),
                bottom - (point.1 - y.0) / (y.1 - y.0) * (bottom - top),
            )
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{left}\" y=\"20\" font-size=\"14\">{}</text>\n",
            SIZE.0, SIZE.1, self.title
        );
        let (values, decimals) = ticks(y);
        for value in values {
            let (_, py) = at((x.0, value));
            let _ = writeln!(
                svg,
                "<path d=\"M{left:.1} {py:.1}H{right:.1}\" stroke=\"#dddddd\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.decimals$}</text>",
                left - 6.0,
                py + 4.0,
            );
        }
        let (values, decimals) = ticks(x);
        for value in values {
            let (px, _) = at((value, y.0));
            let _ = writeln!(
                svg,
                "<path d=\"M{px:.1} {bottom:.1}v4\" stroke=\"#888888\"/>\n\
                 <text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value:.decimals$}</text>",
                bottom + 16.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(left, right),
            SIZE.1 - 12.0,
            self.x,
            f64::midpoint(top, bottom),
            self.y
        );
        let mut taken: Vec<Area> = points().map(|point| Area::of_point(at(*point))).collect();
        for (number, (series, colour)) in self.series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            for (at_point, point) in series.points.iter().enumerate() {
                let (px, py) = at(*point);
                let _ = writeln!(svg, "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\" fill=\"{colour}\"/>");
                if let Some(label) = series.labels.get(at_point) {
                    let (tx, ty) = place_of_label(label, (px, py), &taken);
                    taken.push(Area::of_text(label, (tx, ty)));
                    let _ = writeln!(svg, "<text x=\"{tx:.1}\" y=\"{ty:.1}\">{label}</text>");
                }
            }
            let (px, py) = (right - 150.0, top + 14.0 * (number as f64 + 1.0));
            let _ = writeln!(
                svg,
                "<circle cx=\"{px:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{py:.1}\">{}</text>",
                py - 4.0,
                px + 8.0,
                series.name
            );
        }
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::{Area, place_of_label, ticks};

    #[test]
    fn labels_of_points_close_to_each_other_do_not_overlap() {
        let points = [(100.0, 100.0), (108.0, 104.0), (104.0, 104.0), (96.0, 101.0)];
        let mut taken: Vec<Area> = points.map(Area::of_point).to_vec();
        for point in points {
            let label = Area::of_text("0.05 $/h", place_of_label("0.05 $/h", point, &taken));
            assert!(!taken.iter().any(|other| label.overlaps(other)), "{point:?}");
            taken.push(label);
        }
    }

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let texts = |range| {
            let (values, decimals) = ticks(range);
            values
                .iter()
                .map(|value| format!("{value:.decimals$}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(texts((0.0, 34.56)), ["0", "10", "20", "30"]);
        assert_eq!(texts((0.0, 47.09)), ["0", "10", "20", "30", "40"]);
        assert_eq!(texts((0.83, 1.01)), ["0.85", "0.90", "0.95", "1.00"]);
        assert_eq!(texts((1.9, 6.91)), ["2", "4", "6"]);
    }
}
