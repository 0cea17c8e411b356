/** Owns the states of records, as a transaction finds them and leaves them. */
import type { DeviceContent, GroupContent } from '../../../../organization/decide/records.ts';

/** A record as a transaction finds it or leaves it. */
class RecordState<Content extends { readonly user_id?: string }> {
  readonly id: string;
  readonly revision: number;
  /** The wire text before the revision. */
  readonly body: string;
  /** The revision by which it was made. */
  readonly born: number;
  #record: Content | undefined;
  readonly #owner: string | null | undefined;

  constructor({
    id,
    revision,
    body,
    born,
    record,
    user_id,
  }: {
    readonly id: string;
    readonly revision: number;
    readonly body: string;
    readonly born: number;
    readonly record?: Content;
    /** Where it was read beside the text. */
    readonly user_id?: string | null;
  }) {
    this.id = id;
    this.revision = revision;
    this.body = body;
    this.born = born;
    this.#record = record;
    this.#owner = user_id;
  }

  /** The user whom it belongs to; null: the organization. */
  get owner(): string | null {
    return this.#owner === undefined ? (this.record.user_id ?? null) : this.#owner;
  }

  get record(): Content {
    return (this.#record ??= JSON.parse(`${this.body}}`) as Content);
  }
}

export class GroupState extends RecordState<GroupContent> {
  /** Of a user's group: whether any device lists it, which is when every member may see it. */
  readonly isApplied: boolean;
  /** The revision at which it last left everyone's view; 0: never. */
  readonly leftAt: number;

  constructor({
    isApplied,
    leftAt,
    ...state
  }: ConstructorParameters<typeof RecordState<GroupContent>>[0] & {
    readonly isApplied: boolean;
    readonly leftAt: number;
  }) {
    super(state);
    this.isApplied = isApplied;
    this.leftAt = leftAt;
  }

  /** Who alone may see it; null: every member. */
  get onlyFor(): string | null {
    return this.isApplied ? null : (this.record.user_id ?? null);
  }
}

export class DeviceState extends RecordState<DeviceContent> {}
