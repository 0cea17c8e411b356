/** Owns the matrix: rows connect to columns, devices or labels; the arrow keys move through it. */
import { useRef, type KeyboardEvent, type ReactNode } from 'react';

/** A row or a column. */
export interface Head {
  readonly key: string;
  readonly name: ReactNode;
  readonly title: string | undefined;
  /** Whether a device in it does not prove its policy. */
  readonly isSilent: boolean;
}

export interface Cell {
  readonly kind: 'yes' | 'no' | 'some' | 'unknown' | 'self';
  readonly sign: string;
  /** For a screen reader. */
  readonly label: string;
  readonly title: string | undefined;
  /** Whether devices may do otherwise than the policy says. */
  readonly isDoubtful: boolean;
}

export interface Pick {
  readonly from: number;
  readonly to: number;
}

const steps: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

export function Matrix({
  caption,
  rows,
  columns,
  cellOf,
  picked,
  pick,
  walk = () => undefined,
  isWide = false,
}: {
  readonly caption: string;
  readonly rows: readonly Head[];
  readonly columns: readonly Head[];
  readonly cellOf: (from: number, to: number) => Cell;
  readonly picked?: Pick | undefined;
  readonly pick: (pick: Pick) => void;
  /** The arrow keys went there. */
  readonly walk?: (pick: Pick) => void;
  readonly isWide?: boolean;
}): ReactNode {
  const board = useRef<HTMLTableElement>(null);
  const onKeyDown = (event: KeyboardEvent, from: number, to: number): void => {
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = {
      from: Math.min(rows.length - 1, Math.max(0, from + step[0])),
      to: Math.min(columns.length - 1, Math.max(0, to + step[1])),
    };
    walk(next);
    board.current?.querySelector<HTMLElement>(`[data-cell="${next.from}/${next.to}"]`)?.focus();
  };
  const here = picked ?? { from: 0, to: 0 };
  return (
    <div className="table-scroll matrix-scroll">
      <table className="matrix" ref={board}>
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            <td className="small dimmed">from ↓ to →</td>
            {columns.map(({ key, name, title }) => (
              <th key={key} scope="col" title={title}>
                <span>{name}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, from) => (
            <tr key={row.key}>
              <th scope="row" title={row.title} className={row.isSilent ? 'silent' : undefined}>
                <span className="matrix-name">{row.name}</span>
              </th>
              {columns.map((column, to) => {
                const { kind, sign, label, title, isDoubtful } = cellOf(from, to);
                const isHere = here.from === from && here.to === to;
                return (
                  <td key={column.key}>
                    <button
                      type="button"
                      className={`cell cell-${kind}${isWide ? ' cell-wide' : ''}${isDoubtful ? ' cell-unproven' : ''}`}
                      data-cell={`${from}/${to}`}
                      aria-label={label}
                      title={title}
                      aria-pressed={picked !== undefined && isHere}
                      tabIndex={isHere || isWide ? 0 : -1}
                      onClick={() => pick({ from, to })}
                      onKeyDown={(event) => onKeyDown(event, from, to)}
                    >
                      {sign}
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
