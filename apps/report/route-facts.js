// What a routing trace says about the experts.
'use strict';

/** What the counts of the trace say, layer by layer and over all. A slot is one expert of one layer. */
function analyse(data) {
    const layers = Array.from({ length: data.layers }, (_, layer) => {
        const uses = data.uses.slice(layer * data.experts, (layer + 1) * data.experts);
        const total = uses.reduce((a, b) => a + b, 0);
        const order = uses.map((_, expert) => expert).sort((a, b) => uses[b] - uses[a] || a - b);
        const rank = [];
        order.forEach((expert, place) => {
            rank[expert] = place;
        });
        const entropy = uses.reduce(
            (bits, use) => (use ? bits - (use / total) * Math.log(use / total) : bits),
            0,
        );
        return {
            uses,
            total,
            order,
            rank,
            effective: total ? Math.exp(entropy) : 0,
            repeat: total > 0 && data.tokens > 1 ? data.repeats[layer] / total : null,
        };
    });
    const deciding = layers.filter(({ total }) => total > 0);
    const sorted = data.uses.slice().sort((a, b) => b - a);
    const total = sorted.reduce((a, b) => a + b, 0);
    const slots = deciding.length * data.experts;
    return {
        ...data,
        layers_used: deciding,
        layer_list: layers,
        sorted,
        total,
        slots,
        most: sorted[0],
        unused: slots - sorted.filter((use) => use > 0).length,
    };
}

/** Share of all uses that the `share` most used slots serve. */
function served_by(facts, share) {
    const count = Math.round(share * facts.slots);
    return facts.sorted.slice(0, count).reduce((a, b) => a + b, 0) / facts.total;
}
