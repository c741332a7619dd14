/** A platform in the names of Terraform's archives, for example `linux_amd64`. */
export type PlatformKey = string;

/** version → platform → lower-case hex SHA-256 of `terraform_<version>_<platform>.zip`. */
export type SumTable = Record<string, Record<PlatformKey, string>>;

/** The version to install if the machine has no usable one. */
export const INSTALLED_VERSION = '1.12.2';

/**
 * The checksums of the archives that may be installed. A mirror's own checksums prove nothing, so each checksum here
 * comes from the publisher and was compared with an independent source. A version without a row is never installed.
 */
export const TERRAFORM_SUMS: SumTable = {
  // from the publisher's own package formula for this version; independent pins have the same
  '1.12.2': {
    linux_amd64: '1eaed12ca41fcfe094da3d76a7e9aa0639ad3409c43be0103ee9f5a1ff4b7437',
    linux_arm64: 'f8a0347dc5e68e6d60a9fa2db361762e7943ed084a773f28a981d988ceb6fdc9',
    darwin_amd64: 'c65aa74bed1dbb1c48ba4bbab11f08e7f7eeb54a422146561490275340468f19',
    darwin_arm64: '1ca02f336ff4f993d6441806d38a0bcc0bbca0e3c877b84c9c2dc80cfcd0dc8b',
  },
};
