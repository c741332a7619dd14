/** Platform key as in the names of Terraform's archives, for example `linux_amd64`. */
export type PlatformKey = string;

/** version → platform → lower-case hex SHA-256 of `terraform_<version>_<platform>.zip`. */
export type SumTable = Record<string, Record<PlatformKey, string>>;

/** The version that is installed when the machine has none that fits. */
export const INSTALLED_VERSION = '1.12.2';

/**
 * Sums of the archives that may be installed. A sum enters only from the publisher's signed list, checked by a
 * person: what a mirror says about itself proves nothing. A version without a row here is never installed.
 */
export const TERRAFORM_SUMS: SumTable = {};
