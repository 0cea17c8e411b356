/** Owns the outline of a page, and the name of the browser's tab. */
import { useEffect, type ReactNode } from 'react';

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
