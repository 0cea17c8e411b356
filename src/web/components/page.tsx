/** Owns what every page is made of: its outline and cards, tags, times, facts, differences, steps, and what stands there while it loads. */
import { Button } from '@mantine/core';
import { shortRevision } from '../../client/words/number.ts';
import { useEffect, startTransition, useState, type ReactNode, type PointerEvent } from 'react';
import { expiryWords } from '../../client/words/expiry.ts';
import type { Line } from '../../client/words/changes.ts';

const product = 'Ringfence';

/** It also names the tab after the page, so that several open tabs can be told apart. */
export function PageTitle({ children: title }: { readonly children: string }): ReactNode {
  useEffect(() => {
    document.title = title === product ? product : `${title} · ${product}`;
  }, [title]);
  return <h1>{title}</h1>;
}

export function Page({
  title,
  about,
  back,
  actions,
  children,
}: {
  readonly title: string;
  /** What the page is about, in a line below its title. */
  readonly about?: ReactNode;
  /** The way up, above the title. */
  readonly back?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}): ReactNode {
  return (
    <div className="page">
      {back}
      <div className="page-head">
        <div>
          <PageTitle>{title}</PageTitle>
          {about === undefined ? null : <div className="dimmed">{about}</div>}
        </div>
        {actions === undefined ? null : <div className="row">{actions}</div>}
      </div>
      {children}
    </div>
  );
}

/** A part of a page with a heading. */
export function Card({
  title,
  label = title,
  about,
  dense = false,
  children,
}: {
  readonly title: string;
  /** Its name for screen readers, where that is not its heading. */
  readonly label?: string;
  /** What stands beside the heading. */
  readonly about?: ReactNode;
  readonly dense?: boolean;
  readonly children: ReactNode;
}): ReactNode {
  return (
    <section className="card" aria-label={label}>
      <div className={dense ? 'card-head card-head-dense' : 'card-head'}>
        <h2>{title}</h2>
        {typeof about === 'string' ? <span className="small dimmed">{about}</span> : about}
      </div>
      {children}
    </section>
  );
}

export type Tone = 'plain' | 'accent' | 'good' | 'warn' | 'bad';

export function Tag({ tone = 'plain', children }: { readonly tone?: Tone; readonly children: ReactNode }): ReactNode {
  return <span className={`tag tag-${tone}`}>{children}</span>;
}

/** Words in a row, such as labels. */
export const Tags = ({ of }: { readonly of: readonly string[] }): ReactNode => (
  <span className="tags">
    {of.map((word) => (
      <Tag key={word}>{word}</Tag>
    ))}
  </span>
);

interface Unit {
  /** How many of it make one of the next. */
  readonly size: number;
  readonly one: string;
  readonly many: string;
}

// Words of our own: the browser's formatters take longer to load than the rest of a page takes to draw.
const units: readonly Unit[] = [
  { size: 60, one: 'sec.', many: 'sec.' },
  { size: 60, one: 'min.', many: 'min.' },
  { size: 24, one: 'hr.', many: 'hr.' },
  { size: 30, one: 'day', many: 'days' },
  { size: 12, one: 'month', many: 'months' },
  { size: Number.POSITIVE_INFINITY, one: 'year', many: 'years' },
];

export function ago(then: number, now: number): string {
  const isPast = then < now;
  let amount = Math.round(Math.abs(then - now) / 1000);
  if (amount < 5) return 'now';
  for (const { size, one, many } of units) {
    if (amount >= size) {
      amount = Math.round(amount / size);
      continue;
    }
    if (one === 'day' && amount === 1) return isPast ? 'yesterday' : 'tomorrow';
    const words = `${amount} ${amount === 1 ? one : many}`;
    return isPast ? `${words} ago` : `in ${words}`;
  }
  return '';
}

const twoDigits = (number: number): string => String(number).padStart(2, '0');

/** A time of day, with the date unless it is today: `14:05`, `2026-11-18 14:05`. */
export function clockTime(then: number, now: number): string {
  const at = new Date(then);
  const time = `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}`;
  if (at.toDateString() === new Date(now).toDateString()) return time;
  return `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())} ${time}`;
}

/** The exact time as a title, written when the pointer is there: the browser's formatter takes a phone 100 ms to load. */
const showExact = ({ currentTarget }: PointerEvent<HTMLTimeElement>): void => {
  currentTarget.title = new Date(currentTarget.dateTime).toLocaleString();
};

export function Ago({ at }: { readonly at: string | number }): ReactNode {
  const then = new Date(at);
  return (
    <time dateTime={then.toISOString()} onPointerEnter={showExact}>
      {ago(then.getTime(), Date.now())}
    </time>
  );
}

export function Expiry({ at }: { readonly at: string }): ReactNode {
  const isOver = Date.parse(at) <= Date.now();
  return (
    <time dateTime={at} onPointerEnter={showExact}>
      <Tag tone={isOver ? 'plain' : 'warn'}>{expiryWords(at)}</Tag>
    </time>
  );
}

export type Fact = readonly [name: string, value: ReactNode];

export const Facts = ({ facts }: { readonly facts: readonly Fact[] }): ReactNode => (
  <dl className="facts">
    {facts.map(([name, value]) => (
      <div key={name} className="fact">
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

const looks: { readonly [Sign in Line[0]]: readonly [className: string, shown: string, spoken: string] } = {
  '+': ['change-in', '+', 'added: '],
  '-': ['change-out', '−', 'removed: '],
  '~': ['change-other', '~', 'changed: '],
};

export function Lines({ lines }: { readonly lines: readonly Line[] }): ReactNode {
  if (lines.length === 0) return <p className="small dimmed">No policy field changed.</p>;
  return (
    <ul className="changes">
      {lines.map(([sign, text], index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same line may come twice
        <li key={index} className={looks[sign][0]}>
          <span aria-hidden="true">{looks[sign][1]}</span>
          <span className="visually-hidden">{looks[sign][2]}</span>
          {text}
        </li>
      ))}
    </ul>
  );
}

export type StepState = 'done' | 'now' | 'later';

export function Step({
  title,
  state,
  children,
  action,
}: {
  readonly title: string;
  readonly state: StepState;
  readonly children: ReactNode;
  readonly action?: ReactNode;
}): ReactNode {
  return (
    <li className={`path-step path-${state}`} aria-current={state === 'now' ? 'step' : undefined}>
      <div className="breaks">
        <strong>{title}</strong>
        {state === 'later' ? null : <Tag tone="accent">{state === 'done' ? 'done' : 'next'}</Tag>}
        <div className="small">{children}</div>
      </div>
      {action === undefined ? null : <div className="path-act">{action}</div>}
    </li>
  );
}

export function Loading({ what }: { readonly what: string }): ReactNode {
  return (
    <div className="stack loading" role="status" aria-label={what}>
      <p className="dimmed small">{what}</p>
      <div />
      <div />
      <div />
      <div />
      <div />
    </div>
  );
}

export function Later({ children }: { readonly children: ReactNode }): ReactNode {
  const [isNow, setNow] = useState(false);
  useEffect(() => startTransition(() => setNow(true)), []);
  return isNow ? children : null;
}

/** A revision, in short where it has many digits. */
export const Revision = ({ of }: { readonly of: number }): ReactNode => (
  <span title={String(of)}>{shortRevision(of)}</span>
);

/** A small button beside what it acts on. */
export const SmallButton = Button.withProps({ size: 'compact-sm', variant: 'default' });
