import type { TerraformBinary } from '../terraform/version.ts';

type Listener = (engines: readonly TerraformBinary[]) => Promise<void>;

/** The versions of Terraform that the daemons of a process offer. */
export class Engines {
  readonly #listeners = new Set<Listener>();
  #list: readonly TerraformBinary[];

  constructor(list: readonly TerraformBinary[]) {
    this.#list = list;
  }

  get list(): readonly TerraformBinary[] {
    return this.#list;
  }

  /** Calls `listener` with the rest when an engine is withdrawn. */
  onWithdrawn(listener: Listener): void {
    this.#listeners.add(listener);
  }

  /**
   * Offers an engine no longer, because it cannot be downloaded. It is offered again after the next start. Resolves when
   * no connection offers it.
   */
  async withdraw(engine: TerraformBinary): Promise<void> {
    if (!this.#list.includes(engine)) return;
    this.#list = this.#list.filter((one) => one !== engine);
    await Promise.all([...this.#listeners].map((listener) => listener(this.#list)));
  }
}
