//! Five bodies that attract each other.

#[derive(Clone, Copy)]
struct Body {
    place: [f64; 3],
    speed: [f64; 3],
    mass: f64,
}

pub(crate) fn run(steps: u32) -> i64 {
    let mut bodies: [Body; 5] = std::array::from_fn(|i| Body {
        place: std::array::from_fn(|k| (i * 3 + k) as f64 * 1.37 - 5.0),
        speed: std::array::from_fn(|k| k as f64 * 0.1 - i as f64 * 0.05),
        mass: 1.0 + i as f64,
    });
    for _ in 0..steps {
        for i in 0..5 {
            for j in i + 1..5 {
                let apart: [f64; 3] = std::array::from_fn(|k| bodies[i].place[k] - bodies[j].place[k]);
                let squared = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2];
                let pull = 0.001 / (squared * squared.sqrt());
                let (here, there) = (bodies[i].mass, bodies[j].mass);
                for (k, apart) in apart.iter().enumerate() {
                    bodies[i].speed[k] -= apart * there * pull;
                    bodies[j].speed[k] += apart * here * pull;
                }
            }
        }
        for body in &mut bodies {
            for k in 0..3 {
                body.place[k] += 0.001 * body.speed[k];
            }
        }
    }
    (bodies[0].place[0] * 1e6) as i64
}
