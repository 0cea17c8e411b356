/** Owns the graph of a small fleet: devices on a ring, an arrow for each connection that both ends admit. */
import { useState, type ReactNode } from 'react';
import type { Endpoint, Reach } from '../model/reachability.ts';
import { deviceName } from '../state/live.ts';
import type { Pick } from './matrix.tsx';

const size = 640;
const middle = size / 2;
const ring = 210;

interface Point {
  readonly x: number;
  readonly y: number;
}
const pointAt = (index: number, count: number, radius: number): Point => {
  const angle = (index / count) * 2 * Math.PI - Math.PI / 2;
  return { x: middle + radius * Math.cos(angle), y: middle + radius * Math.sin(angle) };
};

/** Bent towards the middle, so that the way there and the way back are two lines; ends short of the dot it points at. */
function arrow(a: Point, b: Point): string {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = Math.hypot(dx, dy) || 1;
  const bend = { x: (a.x + b.x) / 2 + dy * 0.09, y: (a.y + b.y) / 2 - dx * 0.09 };
  const end = { x: b.x - (dx / length) * 15, y: b.y - (dy / length) * 15 };
  return `M${a.x} ${a.y} Q${bend.x} ${bend.y} ${end.x} ${end.y}`;
}

export function Graph({
  endpoints,
  answers,
  what,
  pick,
}: {
  readonly endpoints: readonly Endpoint[];
  readonly answers: readonly (readonly Reach[])[];
  readonly what: string;
  /** An arrow was chosen. */
  readonly pick: (pick: Pick) => void;
}): ReactNode {
  const [chosen, setChosen] = useState<number>();
  const count = endpoints.length;
  const nameAt = (index: number): string => {
    const one = endpoints[index];
    return one === undefined ? '' : deviceName(one.device);
  };
  const isSilent = (index: number): boolean => endpoints[index]?.shortcoming !== undefined;
  const edges = endpoints.flatMap((_, from) =>
    endpoints.flatMap((__, to) => (answers[from]?.[to]?.kind === 'yes' ? [{ from, to }] : [])),
  );
  return (
    <div className="card-body stack">
      <svg
        className="graph"
        viewBox={`-60 60 ${size + 120} ${size - 110}`}
        role="group"
        aria-label={`Who may reach whom: ${what}. The matrix says the same in words.`}
      >
        <defs>
          <marker
            id="tip"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto-start-reverse"
          >
            <path d="M0 0L8 4L0 8z" className="graph-tip" />
          </marker>
        </defs>
        {edges.map(({ from, to }) => (
          <g
            key={`${from}/${to}`}
            className="graph-edge"
            role="button"
            tabIndex={0}
            aria-label={`Why ${nameAt(from)} may connect to ${nameAt(to)}`}
            onClick={() => pick({ from, to })}
            onKeyDown={(event) => {
              if (event.key === 'Enter' || event.key === ' ') pick({ from, to });
            }}
          >
            <path className="edge-reach" d={arrow(pointAt(from, count, ring), pointAt(to, count, ring))} />
            <path
              className={`${chosen === undefined ? 'edge' : chosen === from ? 'edge edge-strong' : 'edge edge-faint'}${isSilent(from) || isSilent(to) ? ' edge-unproven' : ''}`}
              d={arrow(pointAt(from, count, ring), pointAt(to, count, ring))}
              markerEnd="url(#tip)"
            />
          </g>
        ))}
        {endpoints.map(({ device, shortcoming }, index) => {
          const { x, y } = pointAt(index, count, ring);
          const label = pointAt(index, count, ring + 26);
          const side = label.x > middle + 10 ? 'start' : label.x < middle - 10 ? 'end' : 'middle';
          return (
            <g key={device.id} className="graph-node" onClick={() => setChosen(chosen === index ? undefined : index)}>
              <circle
                cx={x}
                cy={y}
                r="10"
                className={`${chosen === index ? 'node node-on' : 'node'}${shortcoming === undefined ? '' : ' node-silent'}`}
              >
                {shortcoming === undefined ? null : <title>{shortcoming}</title>}
              </circle>
              <text x={label.x} y={label.y + 5} textAnchor={side}>
                {deviceName(device)}
                {device.isolated === undefined ? '' : ' (isolated)'}
              </text>
            </g>
          );
        })}
      </svg>
      <p className="small dimmed">
        Click a device to see only where it may connect to, or an arrow to read why. What is dashed is not proven in
        force.
      </p>
    </div>
  );
}
