terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

data "coder_workspace" "me" {}

resource "terraform_data" "always" {
  count = data.coder_workspace.me.start_count
}

resource "terraform_data" "sometimes" {
  count = 2
}
