"""The equations of each method on a `Problem`, in plain NumPy, as generators of the state after each round."""

from itertools import permutations

import numpy as np

from tests.support.oracle import SEED, activations, batches_of, layers
from trials.common.randomness import uniform

# Averages


def fedavg(P, mu=0.0):
    """FedAvg, and FedProx with mu."""
    w = P.initial()
    for t, ids, lr in P.rounds():
        starts = P.starts()[ids] if P.own and t == 1 else w
        pulls = dict(zip(ids, np.broadcast_to(starts, (len(ids), P.d)), strict=True))
        ends = P.locals(starts, ids, t, lr, lambda k, to=pulls: lambda v: mu * (v - to[k]))
        w = P.p(ids) @ ends
        yield {"w": w}


def fedsgd(P):
    w = P.initial()
    for _, ids, lr in P.rounds():
        w = w - lr * P.p(ids) @ np.array([P.cut(P.slope(k, w)) for k in ids])
        yield {"w": w}


def start(P, w, ids, t):
    """Rows from which FedAvg's clients start."""
    return P.starts()[ids] if P.own and t == 1 else np.broadcast_to(w, (len(ids), P.d))


def fedavgm(P, beta, server_lr):
    w, v = P.initial(), np.zeros(P.d)
    for t, ids, lr in P.rounds():
        v = beta * v + P.p(ids) @ P.locals(start(P, w, ids, t), ids, t, lr) - w
        w = w + server_lr * v
        yield {"w": w, "v": v}


def adaptive(P, second, server_lr, beta1, tau):
    """Reddi et al. 2021, Algorithm 2; `second` maps V and Delta^2 to the new V."""
    w, M, V = P.initial(), np.zeros(P.d), np.full(P.d, tau**2)
    for t, ids, lr in P.rounds():
        delta = P.p(ids) @ P.locals(start(P, w, ids, t), ids, t, lr) - w
        M = beta1 * M + (1 - beta1) * delta
        V = second(V, delta**2)
        w = w + server_lr * M / (np.sqrt(V) + tau)
        yield {"w": w, "M": M, "V": V}


def adagrad(V, squared):
    return V + squared


def adam(V, squared, beta2=0.99):
    return beta2 * V + (1 - beta2) * squared


def yogi(V, squared, beta2=0.99):
    return V - (1 - beta2) * squared * np.sign(V - squared)


def fednova(P):
    """a_k is the sum of the coefficients with which local momentum adds up gradients."""
    w = P.initial()
    for t, ids, lr in P.rounds():
        p, delta = P.p(ids), P.locals(w, ids, t, lr) - w
        powers = P.settings.momentum ** np.arange(99)
        a = np.array([np.cumsum(powers)[: P.steps(t, k)].sum() for k in ids])
        w = w + (p @ a) * ((p / a) @ delta)
        yield {"w": w}


def nearness(P, ids, z):
    """IDA's weights of local models z (k, d)."""
    r = 1 / (np.linalg.norm(P.p(ids) @ z - z, axis=1) + 1e-12)
    return r / r.sum()


def ida(P):
    w = P.initial()
    for t, ids, lr in P.rounds():
        z = P.locals(start(P, w, ids, t), ids, t, lr)
        w = nearness(P, ids, z) @ z
        yield {"w": w}


# Drift


def scaffold(P, server_lr):
    w, c, c_k = P.initial(), np.zeros(P.d), np.zeros((P.n, P.d))
    for t, ids, lr in P.rounds():
        new = c_k.copy()
        ends = P.locals(w, ids, t, lr, lambda k, now=c - c_k: lambda v: now[k])
        for k, end in zip(ids, ends, strict=True):
            new[k] = c_k[k] - c + (w - end) / (P.steps(t, k) * lr)
        w = w + server_lr * P.p(ids) @ (ends - w)
        c = c + P.om[ids] @ (new - c_k)[ids] / P.n
        c_k = new
        yield {"w": w, "c": c, "c_k": c_k}


def feddyn(P, alpha):
    """Acar et al. 2021, Algorithm 1, with g_k and h as printed: H_k = -g_k / a_k."""
    w, g, h, a = P.initial(), np.zeros((P.n, P.d)), np.zeros(P.d), alpha / P.om
    for t, ids, lr in P.rounds():
        ends = P.locals(w, ids, t, lr, lambda k, g=g, w=w: lambda v: -g[k] + a[k] * (v - w))
        g[ids] -= a[ids, None] * (ends - w)
        h = h - (ends - w).sum(0) / P.n
        w = ends.mean(0) - h
        yield {"w": w, "h": -g / a[:, None], "mean_h": -h, "selected": ends.mean(0)}


def feddc(P, alpha, fusion=None, displacement="theta"):
    """FedDC; with `fusion` its local problem in FedUmf's round, anchored at theta: everyone trains always."""
    w, g, h_k, g_k = P.initial(), np.zeros(P.d), np.zeros((P.n, P.d)), np.zeros((P.n, P.d))
    om, moved, before = P.om, np.zeros((P.n, P.d)), set()
    for t, ids, lr in P.rounds():
        everyone = np.arange(P.n) if fusion is not None else ids
        starts = np.tile(w, (P.n, 1))
        for k in set(ids.tolist()) - before if fusion is not None else ():
            starts[k] += fusion * (P.settings.lr_decay if t > 1 else 1) * moved[k]

        def extra(k, w=w, g=g, h=h_k, own=g_k):
            return lambda v: alpha / om[k] * (v - (w - h[k])) - own[k] + g / om[k]

        ends = np.zeros((P.n, P.d))
        ends[everyone] = P.locals(starts[everyone], everyone, t, lr, extra)
        moved, after = ends - starts, g.copy()
        for k in ids:
            delta = ends[k] - (w if displacement == "theta" else starts[k])
            h_k[k] += delta
            change = -g / om[k] - delta / (P.steps(t, k) * lr)
            g_k[k] += change
            after += om[k] * change / P.n
        w, g, before = ends[ids].mean(0) + h_k.mean(0), after, set(ids.tolist())
        yield {"w": w, "h": h_k.copy(), "mean_h": h_k.mean(0), "g": g, "g_k": g_k.copy()}


# FOLB and the sampling rules beside it: FOLB (5), (7), (9), (10), (13), (18)


def proximal(P, mu, w, ids, t, lr):
    """FedProx's displacements, (k, d)."""
    return P.locals(w, ids, t, lr, lambda k, w=w: lambda v: mu * (v - w)) - w


def slopes(P, w, ids):
    return np.array([P.slope(k, w) for k in ids])


def folb(P, mu, psi=0.0):
    """(13), or (18) with psi: repeats count in the mean gradient, the scores and the sum."""
    w = P.initial()
    for t, ids, lr in P.rounds():
        delta, g = proximal(P, mu, w, ids, t, lr), slopes(P, w, ids)
        left = np.array([P.slope(k, w + d) + mu * d for k, d in zip(ids, delta, strict=True)])
        gamma = np.minimum(1, np.linalg.norm(left, axis=1) / np.linalg.norm(g, axis=1))  # V-A
        G = g.mean(0)
        score = g @ G - psi * gamma * (G @ G)
        w = w + score / np.abs(score).sum() @ delta
        yield {"w": w}


def folb_two_set(P, mu):
    w = P.initial()
    for t, ids, lr in P.rounds():
        second = P.select(t, "second")
        g, other = slopes(P, w, ids), slopes(P, w, second)
        weight = g @ g.mean(0) / (other @ other.mean(0)).sum()
        w = w + weight @ proximal(P, mu, w, ids, t, lr)
        yield {"w": w}


def fednu_sign(P, mu):
    """(5) with the gradient of all devices."""
    w = P.initial()
    for t, ids, lr in P.rounds():
        f = P.p() @ slopes(P, w, range(P.n))
        signs = np.sign(slopes(P, w, ids) @ f)
        w = w + signs @ proximal(P, mu, w, ids, t, lr) / len(ids)
        yield {"w": w}


def sampled(P, rule, mu, psi=0.0):
    """(7), with psi (16), and the stand-in by norms; (5) of the drawn devices."""
    w = P.initial()
    for t, _, lr in P.rounds():
        g = slopes(P, w, range(P.n))
        f = P.p() @ g
        I = g @ f if rule == "optimal" else np.linalg.norm(g, axis=1)
        if psi:
            delta = proximal(P, mu, w, range(P.n), t, lr)
            left = np.array([P.slope(k, w + d) + mu * d for k, d in enumerate(delta)])
            gamma = np.linalg.norm(left, axis=1) / np.linalg.norm(g, axis=1)
            I = I - psi * np.minimum(gamma, 1) * (f @ f)
        P_k = np.abs(I)
        u = uniform("select", SEED, t, np.arange(P.count))
        ids = np.searchsorted(np.cumsum(P_k / P_k.sum()), u, side="right")
        w = w + (np.sign(I[ids])[:, None] * proximal(P, mu, w, ids, t, lr)).mean(0)
        yield {"w": w}


# SAFL (2)-(8), (24)-(26), ASTW (Chen et al. 2020)


def accuracy(P, k, w):
    x, y = P.parts[k]
    return np.mean(activations(w, x, P.widths)[-1].argmax(1) == y)


def safl(P, epsilon, L, rule="mean", nu=None, clock="rounds"):
    """With nu the extended rounds, in which a client uploads by its coin; by the `rule` of IDA (8)."""
    z, w = P.starts(), None
    for t, ids, lr in P.rounds():
        starts, sends = z.copy(), np.ones(len(ids), bool)
        for k in ids if w is not None else ():
            q = len(P.batches(t, k)) if clock == "steps" else 1
            masked = uniform("anneal", SEED, t, k, np.arange(P.d)) < np.exp(-(t - 1) * q / L)
            u = np.where(masked, epsilon, 1.0)
            starts[k] = u * w + (1 - u) * z[k]
        z[ids] = P.locals(starts[ids], ids, t, lr)
        if nu is not None and w is not None:
            gaps = []
            for k in ids:
                server, own = accuracy(P, k, w), accuracy(P, k, z[k])
                gaps.append(abs(server - own) / (server + own + 1e-6))
            coins = np.array([uniform("coin", SEED, t, k, 0).item() for k in ids])
            sends = coins < np.exp(-np.array(gaps) / nu)
        sent = ids[sends]
        if len(sent):
            w = (nearness(P, sent, z[sent]) if rule == "ida" else P.p(sent)) @ z[sent]
        yield {"w": w, "z": z.copy()}


def astw(P, A, loop, last, epsilon=1.0, L=1.0):
    """Deep layers are due in the `last` rounds of each loop. The server's copy of a part is what was uploaded, not
    what the client made of it since. With epsilon SAFL's clients, which mix what was just received.
    """
    inputs, units = P.widths[:2]
    shallow = np.arange(P.d) < (inputs + 1) * units if len(P.widths) > 2 else np.ones(P.d, bool)
    parts = [part for part in (shallow, ~shallow) if part.any()]
    w, z, uploads = P.initial(), P.starts(), [{} for _ in parts]
    for t, ids, lr in P.rounds():
        due = parts[: 1 + ((t - 1) % loop >= loop - last)]
        starts = z.copy()
        for k in ids:
            masked = uniform("anneal", SEED, t, k, np.arange(P.d)) < np.exp(-(t - 1) / L)
            mixed = epsilon * w + (1 - epsilon) * z[k]
            received = np.where(masked, mixed, w) if epsilon < 1 else w
            for part, kept in zip(due, uploads, strict=False):
                if (kept or not P.own) and (t > 1 or epsilon == 1):
                    starts[k, part] = received[part]
        z[ids] = P.locals(starts[ids], ids, t, lr)
        w = w.copy()
        for part, kept in zip(due, uploads, strict=False):
            kept.update({k: (t, z[k, part].copy()) for k in ids})
            q = P.p(list(kept)) * np.array([A ** -(t - stamp) for stamp, _ in kept.values()])
            w[part] = q / q.sum() @ np.array([copy for _, copy in kept.values()])
        yield {"w": w, "z": z.copy()}


# FedUmf Algorithm 1, line by line: all clients train always


def fedumf(P, alpha):
    w, g, before = P.initial(), np.zeros((P.n, P.d)), set()
    for t, ids, lr in P.rounds():
        starts = np.tile(w, (P.n, 1))
        for k in set(ids.tolist()) - before:
            starts[k] += alpha * (P.settings.lr_decay if t > 1 else 1) * g[k]
        ends = P.locals(starts, np.arange(P.n), t, lr)
        g, before = ends - starts, set(ids.tolist())
        w = P.p(ids) @ ends[ids]
        yield {"w": w}


# FedAgg: L local epochs, l = 0..L-1 an epoch, k = 1..L its end


def path_of(P, w, k, t, rates):
    """w_{k,0}, ..., w_{k,L} of SGD with a rate for each epoch."""
    batches, size, path = P.batches(t, k), P.per_epoch(k), [w]
    for l in range(len(rates)):
        steps = np.repeat(rates[: l + 1], size)
        path.append(P.sgd(w, batches[: (l + 1) * size], steps))
    return np.array(path)


def agg_rates(paths, phi1, phi2, alpha, scaling, lr, eta_max):
    """eta_{i,l} of each client before and after the clip, by loops over l and k > l."""
    c = (1 - alpha) / alpha
    free = np.zeros((len(paths), len(phi1)))
    for i, path in enumerate(paths):
        for l in range(len(phi1)):
            v = sum(path[k] - phi2[k] for k in range(l + 1, len(phi1) + 1))
            product, size = phi1[l] @ v, np.linalg.norm(phi1[l]) * np.linalg.norm(v)
            if scaling == "raw":
                free[i, l] = lr + c * product
            else:
                noise = min(np.linalg.norm(phi1[l]), np.linalg.norm(v)) < 1e-12
                free[i, l] = lr * (1 + c * (0 if noise else product / size))
    return free, np.minimum(np.maximum(free, 0), eta_max * lr)


def mean_fields(P, ids, paths):
    """phi1 (L, d) and phi2 (L + 1, d)."""
    L = len(paths[0]) - 1
    g = [[P.slope(k, path[l]) for l in range(L)] for k, path in zip(ids, paths, strict=True)]
    return np.mean(g, 0), np.mean(paths, 0)


def fedagg(P, alpha=5.0, scaling="cosine", direction="own", sweeps=1, eta_max=10.0):
    w, L = P.initial(), P.settings.local_epochs
    for t, ids, lr in P.rounds():
        paths = [path_of(P, w, k, t, [lr] * L) for k in ids]
        for _ in range(sweeps):
            phi1, phi2 = mean_fields(P, ids, paths)
            _, eta = agg_rates(paths, phi1, phi2, alpha, scaling, lr, eta_max)
            if direction == "own":
                paths = [path_of(P, w, k, t, e) for k, e in zip(ids, eta, strict=True)]
            else:
                moves = [P.per_epoch(k) * e for k, e in zip(ids, eta, strict=True)]
                steps = np.array(moves)[:, :, None] * phi1
                paths = np.concatenate([np.tile(w, (len(ids), 1, 1)), w - steps.cumsum(1)], 1)
        w = P.p(ids) @ np.array([path[L] for path in paths])
        yield {"w": w}


def theorem_1(w, phi1, phi2, alpha):
    """(I + c A) eta = c b with sums written out over k > max(l, r)."""
    c, n = (1 - alpha) / alpha, len(phi1)
    A, b = np.zeros((n, n)), np.zeros(n)
    for l in range(n):
        for k in range(l + 1, n + 1):
            b[l] += phi1[l] @ (w - phi2[k])
            for r in range(k):
                A[l, r] += phi1[l] @ phi1[r]
    return np.linalg.solve(np.eye(n) + c * A, c * b)


def fedagg_literal(P, alpha=0.1, tolerance=0.0, max_sweeps=3, met=None):
    """4.1; `met` collects the rates of each round and the number of sweeps."""

    def descend(k, rates):
        path = [w]
        for eta in rates:
            path.append(path[-1] - eta * P.cut(P.slope(k, path[-1])))
        return np.array(path)

    w, L = P.initial(), P.settings.local_epochs
    for _, ids, lr in P.rounds():
        phi1, phi2 = mean_fields(P, ids, [descend(k, [lr] * L) for k in ids])
        for sweeps in range(1, max_sweeps + 1):  # noqa: B007 - how many there were
            eta = theorem_1(w, phi1, phi2, alpha)
            common = np.concatenate([w[None], w - np.cumsum(eta[:, None] * phi1, 0)])
            new1, new2 = mean_fields(P, ids, [common] * len(ids))
            change = max(np.linalg.norm(new1 - phi1), np.linalg.norm(new2 - phi2))
            phi1, phi2 = new1, new2
            if change < tolerance:
                break
        eta = theorem_1(w, phi1, phi2, alpha)
        if met is not None:
            met.append((eta, sweeps))
        w = P.p(ids) @ np.array([descend(k, eta)[-1] for k in ids])
        yield {"w": w}


# DeFed (5), (6); FedMA; references


def circle(n, degree):
    """1 / (l + 1) for oneself and l / 2 neighbours on each side."""
    gap = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return (np.minimum(gap, n - gap) <= degree // 2) / (degree + 1)


def hub(n):
    """Metropolis weights of a star: every edge 1 / n."""
    w = np.zeros((n, n))
    w[0, 1:] = w[1:, 0] = 1 / n
    return w + np.diag(1 - w.sum(1))


def among(mixing, ids):
    """The exchange of those awake: an edge needs both its ends, the rest stays at home."""
    awake = np.isin(np.arange(len(mixing)), ids)
    off = mixing * np.outer(awake, awake) * (1 - np.eye(len(mixing)))
    return off + np.diag(1 - off.sum(1))


def defed(P, mixing, scale="samples"):
    """w_k <- sum_j W_kj w_j + (LocalSGD(w_k) - w_k) with the gradients s_k g_k of (5), (6)."""
    models = P.starts()
    share = np.array(P.sizes) / sum(P.sizes)
    s = {"samples": P.n * share, "one": np.ones(P.n), "printed": share}[scale]
    for t, ids, lr in P.rounds():
        ids, moved = np.unique(ids), np.zeros_like(models)
        for k in ids:
            moved[k] = P.local(models[k], k, t, s[k] * lr) - models[k]
        models = among(mixing, ids) @ models + moved
        yield {"W": models}


def units(w, widths):
    """Each hidden layer's units as rows: weights and bias."""
    return [np.hstack([W, b[:, None]]) for W, b in list(layers(w, widths))[:-1]]


def arranged(w, orders, widths):
    """The same network with the units of its hidden layers in other orders."""
    parts, before = [], np.arange(widths[0])
    last = np.arange(widths[-1])
    for (W, b), order in zip(layers(w, widths), [*orders, last], strict=True):
        order = np.array(order)
        parts += [W[order][:, before].ravel(), b[order]]
        before = order
    return np.concatenate(parts)


def matched(w, reference, widths):
    """Layer after layer the best of all orders of its units, found by trying each."""
    orders = []
    for layer, target in enumerate(units(reference, widths)):
        rest = [range(width) for width in widths[1:-1]][layer + 1 :]

        def distance(order, layer=layer, target=target, rest=rest):
            now = arranged(w, [*orders, order, *rest], widths)
            return ((units(now, widths)[layer] - target) ** 2).sum()

        orders.append(min(permutations(range(len(target))), key=distance))
    return arranged(w, orders, widths)


def fedma(P):
    w = P.initial()
    for t, ids, lr in P.rounds():
        ends = P.locals(start(P, w, ids, t), ids, t, lr)
        w = P.p(ids) @ np.array([matched(end, w, P.widths) for end in ends])
        yield {"w": w}


def centralized(P):
    """SGD on the pool, as many minibatches as hold what the round's clients process together."""
    w, total, pool = P.initial(), sum(P.sizes), P.data.pooled
    size = P.settings.batch_size
    width = max(1, round(total / P.n)) if size == "full" else min(size, total)
    for t, ids, lr in P.rounds():
        samples = 0
        for k in np.unique(ids):
            m = P.sizes[k]
            epoch = [m] if size == "full" else [min(size, m - i) for i in range(0, m, size)]
            steps = P.steps(t, k)
            samples += sum((epoch * steps)[:steps])
        w = P.sgd(w, batches_of(pool, 0, max(1, round(samples / width)), width, t), lr)
        yield {"w": w}


def local_only(P):
    """Everyone for themselves, from where they were."""
    z = P.starts()
    for t, ids, lr in P.rounds():
        ids = np.unique(ids)
        z[ids] = P.locals(z[ids], ids, t, lr)
        yield {"z": z.copy()}
