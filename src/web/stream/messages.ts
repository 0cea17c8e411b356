/** Owns what a page and the shared worker say to each other. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { Change } from '../../client/cache.ts';
import type { RingfenceErrorInit } from '../../client/error.ts';
import type { ConnectionState } from '../../client/state.ts';

/** What a page follows, and as whom. Pages that agree in all of it share one stream. */
export interface StreamSubject {
  readonly organization: string;
  readonly user: string;
  /** Undefined: the browser's cookie. */
  readonly token: string | undefined;
}

export type PageMessage =
  /** Sent again and again: it also says that the page is still there. `version`: of the copy that the page has. */
  | { readonly type: 'follow'; readonly subject: StreamSubject; readonly version: string | undefined }
  /** The page is not shown any more, or gone. */
  | { readonly type: 'leave' }
  | { readonly type: 'retry' };

export type WorkerMessage =
  /** All records: the page's copy is of another version. */
  | {
      readonly type: 'records';
      readonly version: string;
      readonly devices: readonly Device[];
      readonly groups: readonly SecurityGroup[];
    }
  | { readonly type: 'changes'; readonly version: string; readonly changes: readonly Change[] }
  | { readonly type: 'status'; readonly synced: boolean; readonly connection: ConnectionState }
  /** Following ended for good; the page may ask anew. */
  | { readonly type: 'failed'; readonly error: Pick<RingfenceErrorInit, 'code' | 'message' | 'status' | 'requestId'> }
  | { readonly type: 'alive' };
