/** Owns how a page looks when there is nothing to show: empty, failed, not found; each says what to do next. */
import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { RingfenceError } from '../../client/error.ts';
import { Loading, PageTitle } from './page.tsx';
import { sentence } from './sentence.ts';

/** `whole`: it is the page itself, not a part of one. */
export function Empty({
  whole = false,
  icon,
  title,
  children,
  action,
}: {
  readonly whole?: boolean;
  readonly icon?: ReactNode;
  readonly title: string;
  readonly children?: ReactNode;
  readonly action?: ReactNode;
}): ReactNode {
  return (
    <div className="empty">
      {icon === undefined ? null : <div className="empty-icon">{icon}</div>}
      {whole ? <PageTitle>{title}</PageTitle> : <h2>{title}</h2>}
      {children === undefined ? null : <p>{children}</p>}
      {action === undefined ? null : <div className="row">{action}</div>}
    </div>
  );
}

/** Whether the request got no answer. The frame then asks again as soon as the server answers. */
const isUnreachable = (error: unknown): boolean => error instanceof RingfenceError && error.status === undefined;

export function Failed({ error, retry }: { readonly error: unknown; readonly retry?: () => void }): ReactNode {
  const id = error instanceof RingfenceError ? error.requestId : undefined;
  if (isUnreachable(error)) {
    return (
      <div className="empty" role="status">
        <h2>Waiting for the server</h2>
        <p>This appears by itself as soon as the server answers.</p>
      </div>
    );
  }
  return (
    <div className="empty" role="alert">
      <h1>Something went wrong</h1>
      <p>{sentence(error)}</p>
      {id === undefined ? null : (
        <p className="small dimmed">
          The server's log knows it as <code>{id}</code>.
        </p>
      )}
      {retry === undefined ? null : (
        <Button variant="default" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** A list that loads, or that could not be loaded; nothing once it is there. */
export function ListState({
  query: { data, error, refetch },
  loading,
}: {
  readonly query: { readonly data: unknown; readonly error: unknown; readonly refetch: () => Promise<unknown> };
  /** What a person reads while it loads. */
  readonly loading: string;
}): ReactNode {
  if (error !== null) return <Failed error={error} retry={() => void refetch()} />;
  if (data !== undefined) return null;
  return (
    <div className="card-body">
      <Loading what={loading} />
    </div>
  );
}

export function NoSuchPage(): ReactNode {
  return (
    <main className="page">
      <Empty
        whole
        title="There is no such page"
        action={
          <Link to="/" className="link">
            Go to your organizations
          </Link>
        }
      >
        The address may be mistyped, or the page was removed.
      </Empty>
    </main>
  );
}

export function PageFault({ error }: { readonly error: unknown }): ReactNode {
  return (
    <main className="page">
      <Failed error={error} retry={() => location.reload()} />
    </main>
  );
}
