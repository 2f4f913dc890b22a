//! Reciprocal rank fusion: what stands high in several rankings stands high in the one made of them
//! (Cormack, Clarke and Büttcher, 2009).

use std::collections::HashMap;

use super::index::ChunkId;

/// How little the first places of one ranking count for more than its next ones; the paper's constant.
const DAMPING: f64 = 60.0;

/// One ranking of several, the best first.
pub(super) fn reciprocal_rank(rankings: &[Vec<ChunkId>]) -> Vec<ChunkId> {
    let mut scores: HashMap<ChunkId, f64> = HashMap::new();
    for ranking in rankings {
        for (place, chunk) in (1_u32..).zip(ranking) {
            *scores.entry(*chunk).or_default() += 1.0 / (DAMPING + f64::from(place));
        }
    }
    let mut order: Vec<_> = scores.into_iter().collect();
    order.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    order.into_iter().map(|(chunk, _)| chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_rankings_name_comes_first() {
        assert_eq!(reciprocal_rank(&[vec![1, 2, 3], vec![4, 3, 5]]), [3, 1, 4, 2, 5]);
        assert_eq!(reciprocal_rank(&[vec![7, 8], vec![]]), [7, 8]);
        assert_eq!(reciprocal_rank(&[]), [] as [ChunkId; 0]);
    }
}
