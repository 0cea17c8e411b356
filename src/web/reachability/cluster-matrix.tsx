/**
 * Owns the matrix of a large fleet: clusters instead of devices, with how many of their pairs may connect; a cell opens
 * to devices.
 */
import type { ReactNode } from 'react';
import type { Cluster, PairCount } from '../model/reachability.ts';
import { grouped } from '../../client/words/number.ts';
import type { Pick } from './matrix.tsx';

const shareText = ({ yes, total }: PairCount): string => {
  if (total === 0) return '';
  if (yes === 0) return '×';
  if (yes === total) return '✓';
  return `${Math.max(1, Math.min(99, Math.round((yes / total) * 100)))}%`;
};

const kindOf = ({ yes, total, unknown }: PairCount): string => {
  if (total === 0) return 'self';
  if (yes === total) return 'yes';
  return yes > 0 ? 'some' : unknown === total ? 'unknown' : 'no';
};

export function ClusterMatrix({
  clusters,
  counts,
  silent,
  isolated,
  pick,
}: {
  readonly clusters: readonly Cluster[];
  readonly counts: readonly (readonly PairCount[])[];
  /** How many devices of each cluster do not prove their policy. */
  readonly silent: readonly number[];
  /** How many devices of each cluster are isolated. */
  readonly isolated: readonly number[];
  readonly pick: (pick: Pick) => void;
}): ReactNode {
  const isolatedText = (index: number): string => {
    const cut = isolated[index] ?? 0;
    return cut === 0 ? '' : `, ${grouped(cut)} isolated`;
  };
  const title = (index: number): string => {
    const [many, away] = [clusters[index]?.members.length ?? 0, silent[index] ?? 0];
    const devices = `${grouped(many)} ${many === 1 ? 'device' : 'devices'}`;
    return `${devices}${isolatedText(index)}${away === 0 ? '' : `, ${grouped(away)} not in force`}`;
  };
  return (
    <div className="table-scroll matrix-scroll">
      <table className="matrix">
        <caption className="visually-hidden">Rows connect to columns. A cell opens to its devices.</caption>
        <thead>
          <tr>
            <td className="small dimmed">from ↓ to →</td>
            {clusters.map(({ key, name }, index) => (
              <th key={key} scope="col" title={title(index)}>
                <span>{name}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {clusters.map((row, from) => (
            <tr key={row.key}>
              <th scope="row" title={title(from)} className={(silent[from] ?? 0) > 0 ? 'silent' : undefined}>
                <span className="matrix-name">
                  {row.name}{' '}
                  <span className="dimmed">
                    {grouped(row.members.length)}
                    {isolatedText(from)}
                  </span>
                </span>
              </th>
              {clusters.map((column, to) => {
                const count = counts[from]?.[to] ?? { yes: 0, unknown: 0, total: 0 };
                const doubt = (silent[from] ?? 0) + (silent[to] ?? 0) > 0 && count.yes > 0 ? ' cell-unproven' : '';
                const words = `${grouped(count.yes)} of ${grouped(count.total)} pairs may connect`;
                return (
                  <td key={column.key}>
                    <button
                      type="button"
                      className={`cell cell-wide cell-${kindOf(count)}${doubt}`}
                      aria-label={`${shareText(count)} ${row.name} to ${column.name}: ${words}`.trim()}
                      title={`${row.name} to ${column.name}: ${words}`}
                      onClick={() => pick({ from, to })}
                    >
                      {shareText(count)}
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
