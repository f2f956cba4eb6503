//! Tours through the cities of a TSPLIB file, and a population of them: children of two good tours (order crossover),
//! each improved by 2-opt and Or-opt until neither helps.

/// Tours, the shortest first, no two of one length.
pub struct Population {
    tours: Vec<Tour>,
}

/// Length of a tour, and its cities, from 0.
pub type Tour = (u32, Vec<usize>);

impl Population {
    /// Tours in random order, improved.
    pub fn new(cities: &Cities, size: u64, random: &mut Random) -> Population {
        let mut tours: Vec<Tour> = (0..size)
            .map(|_| {
                let mut tour: Vec<usize> = (0..cities.count).collect();
                random.shuffle(&mut tour);
                cities.improved(tour)
            })
            .collect();
        tours.sort();
        Population { tours }
    }

    /// Makes a child of two tours, and adds it.
    pub fn breed(&mut self, cities: &Cities, random: &mut Random) {
        let mother = &self.tours[random.below(self.tours.len())].1;
        let father = &self.tours[random.below(self.tours.len())].1;
        self.add(cities.improved(random.crossed(mother, father)));
    }

    /// Adds a tour in place of the longest. One as long as one that is here is taken for the same: the population stays
    /// diverse.
    pub fn add(&mut self, tour: Tour) {
        if let Err(place) = self.tours.binary_search_by_key(&tour.0, |tour| tour.0) {
            self.tours.insert(place, tour);
            self.tours.pop();
        }
    }

    /// The shortest tour.
    pub fn best(&self) -> &Tour {
        &self.tours[0]
    }
}

/// The answer: two lines, with the tour from city 1 on.
pub fn answer((length, mut tour): Tour) -> String {
    let start = tour.iter().position(|&city| city == 0).unwrap_or(0);
    tour.rotate_left(start);
    let tour: Vec<String> = tour.iter().map(|city| (city + 1).to_string()).collect();
    format!("length {length}\ntour {}", tour.join(" "))
}

/// Cities of a file, and the distances between them.
pub struct Cities {
    count: usize,
    distances: Vec<u32>,
}

impl Cities {
    /// Reads a TSPLIB file.
    ///
    /// # Errors
    /// The reason in words, if it has no coordinates in a plane or fewer than 5 cities.
    pub fn parse(text: &str) -> Result<Cities, String> {
        if !text.lines().any(|line| line.starts_with("EDGE_WEIGHT_TYPE") && line.contains("EUC_2D")) {
            return Err("only EDGE_WEIGHT_TYPE EUC_2D is understood".into());
        }
        let mut places: Vec<(f64, f64)> = Vec::new();
        for line in text.lines().skip_while(|line| line.trim() != "NODE_COORD_SECTION").skip(1) {
            if line.trim() == "EOF" {
                break;
            }
            let numbers: Vec<f64> = line.split_whitespace().flat_map(str::parse).collect();
            let [_, x, y] = numbers[..] else { return Err(format!("not a city: {line:?}")) };
            places.push((x, y));
        }
        if places.len() < 5 {
            return Err(format!("{} cities; at least 5 are needed", places.len()));
        }
        // TSPLIB's rounding: to the nearest integer.
        let distance = |a: (f64, f64), b: (f64, f64)| {
            let (x, y) = (a.0 - b.0, a.1 - b.1);
            ((x * x + y * y).sqrt() + 0.5) as u32
        };
        let distances = places.iter().flat_map(|&a| places.iter().map(move |&b| distance(a, b))).collect();
        Ok(Cities { count: places.len(), distances })
    }

    fn between(&self, a: usize, b: usize) -> u32 {
        self.distances[a * self.count + b]
    }

    /// Applies the first 2-opt or Or-opt move that shortens the tour, until there is none.
    fn improved(&self, mut tour: Vec<usize>) -> (u32, Vec<usize>) {
        while self.two_opt(&mut tour) || self.or_opt(&mut tour) {}
        let length = (0..self.count).map(|i| self.between(tour[i], tour[(i + 1) % self.count])).sum();
        (length, tour)
    }

    /// Reverses stretches between two edges that cross.
    fn two_opt(&self, tour: &mut [usize]) -> bool {
        let mut shorter = false;
        for i in 0..self.count - 2 {
            for j in i + 2..self.count {
                let (a, b, c, d) = (tour[i], tour[i + 1], tour[j], tour[(j + 1) % self.count]);
                if self.between(a, c) + self.between(b, d) < self.between(a, b) + self.between(c, d) {
                    tour[i + 1..=j].reverse();
                    shorter = true;
                }
            }
        }
        shorter
    }

    /// Moves a stretch of one to three cities elsewhere, either way round.
    fn or_opt(&self, tour: &mut [usize]) -> bool {
        let n = self.count;
        for length in 1..=3 {
            for _ in 0..n {
                // The stretch stands in front; the rest is every place it could go.
                let (first, last) = (tour[0], tour[length - 1]);
                let (after, before) = (tour[length], tour[n - 1]);
                let gain = self.between(before, first) + self.between(last, after);
                for i in length..n - 1 {
                    let (a, b) = (tour[i], tour[i + 1]);
                    let removed = gain + self.between(a, b);
                    let straight = self.between(a, first) + self.between(last, b);
                    let turned = self.between(a, last) + self.between(first, b);
                    if straight.min(turned) + self.between(before, after) < removed {
                        if turned < straight {
                            tour[..length].reverse();
                        }
                        tour[..=i].rotate_left(length);
                        return true;
                    }
                }
                tour.rotate_left(1);
            }
        }
        false
    }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E3779B97F4A7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn shuffle(&mut self, tour: &mut [usize]) {
        for i in (1..tour.len()).rev() {
            tour.swap(i, self.below(i + 1));
        }
    }

    /// Order crossover: a stretch of one parent, the rest in the order of the other.
    fn crossed(&mut self, mother: &[usize], father: &[usize]) -> Vec<usize> {
        let n = mother.len();
        let (from, length) = (self.below(n), 1 + self.below(n - 1));
        let mut child: Vec<usize> = (0..length).map(|i| mother[(from + i) % n]).collect();
        let mut taken = vec![false; n];
        child.iter().for_each(|&city| taken[city] = true);
        child.extend(father.iter().filter(|&&city| !taken[city]));
        child
    }
}
