/** Owns the matrix: rows connect to columns; the arrow keys move through it. */
import { useRef, type KeyboardEvent, type ReactNode } from 'react';
import type { Endpoint, Reach } from '../model/reachability.ts';
import { deviceName } from '../state/organization.ts';

export interface Pick {
  readonly from: number;
  readonly to: number;
}

const signs: { readonly [K in Reach['kind']]: string } = { yes: '✓', no: '×', unknown: '?', self: '' };
const words: { readonly [K in Reach['kind']]: string } = {
  yes: 'may connect',
  no: 'may not connect',
  unknown: 'unknown',
  self: 'itself',
};
/** Isolation comes before everything else. */
const isolationOf = ({ device: { isolated } }: Endpoint): string | undefined =>
  isolated === undefined ? undefined : `Isolated: ${isolated.reason}`;

function IsolationMark({ endpoint }: { readonly endpoint: Endpoint }): ReactNode {
  return isolationOf(endpoint) === undefined ? null : <strong className="isolated-mark"> isolated</strong>;
}

const steps: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

export function Matrix({
  rows,
  columns,
  answers,
  picked,
  pick,
}: {
  readonly rows: readonly Endpoint[];
  readonly columns: readonly Endpoint[];
  readonly answers: readonly (readonly Reach[])[];
  readonly picked: Pick | undefined;
  readonly pick: (pick: Pick) => void;
}): ReactNode {
  const board = useRef<HTMLTableElement>(null);
  const walk = (event: KeyboardEvent, from: number, to: number): void => {
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = {
      from: Math.min(rows.length - 1, Math.max(0, from + step[0])),
      to: Math.min(columns.length - 1, Math.max(0, to + step[1])),
    };
    pick(next);
    board.current?.querySelector<HTMLElement>(`[data-cell="${next.from}/${next.to}"]`)?.focus();
  };
  const here = picked ?? { from: 0, to: 0 };
  return (
    <div className="table-scroll matrix-scroll">
      <table className="matrix" ref={board}>
        <caption className="visually-hidden">Rows connect to columns. Move with the arrow keys.</caption>
        <thead>
          <tr>
            <td className="small dimmed">from ↓ to →</td>
            {columns.map((column) => (
              <th key={column.device.id} scope="col" title={isolationOf(column)}>
                <span>
                  {deviceName(column.device)}
                  <IsolationMark endpoint={column} />
                </span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, from) => (
            <tr key={row.device.id}>
              <th
                scope="row"
                className={row.shortcoming === undefined ? undefined : 'silent'}
                title={isolationOf(row) ?? row.shortcoming}
              >
                <span className="matrix-name">
                  {deviceName(row.device)}
                  <IsolationMark endpoint={row} />
                </span>
              </th>
              {columns.map((column, to) => {
                const kind = answers[from]?.[to]?.kind ?? 'unknown';
                const isProven = row.shortcoming === undefined && column.shortcoming === undefined;
                const doubt =
                  isProven || kind === 'self' ? '' : `, not in force: ${row.shortcoming ?? column.shortcoming}`;
                const isHere = here.from === from && here.to === to;
                return (
                  <td key={column.device.id}>
                    <button
                      type="button"
                      className={`cell cell-${kind}${doubt === '' ? '' : ' cell-unproven'}`}
                      data-cell={`${from}/${to}`}
                      aria-label={`${deviceName(row.device)} to ${deviceName(column.device)}: ${words[kind]}${doubt}`}
                      title={doubt === '' ? undefined : doubt.slice(2)}
                      aria-pressed={picked !== undefined && isHere}
                      tabIndex={isHere ? 0 : -1}
                      onClick={() => pick({ from, to })}
                      onKeyDown={(event) => walk(event, from, to)}
                    >
                      {signs[kind]}
                    </button>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
