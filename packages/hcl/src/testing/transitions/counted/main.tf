terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

data "coder_workspace" "me" {}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

resource "terraform_data" "home" {
  input = data.coder_workspace.me.name
}

resource "terraform_data" "machine" {
  count      = data.coder_workspace.me.start_count
  input      = [coder_agent.main.token, terraform_data.home.id]
  depends_on = [terraform_data.home]
}

# nothing of a block without instances is evaluated
resource "coder_metadata" "machine" {
  count       = data.coder_workspace.me.start_count
  resource_id = terraform_data.machine[0].id
  item {
    key   = "transition"
    value = data.coder_workspace.me.transition
  }
}

# an order alone changes no value
resource "terraform_data" "after" {
  depends_on = [terraform_data.machine]
}

# only one of two remains
resource "terraform_data" "replica" {
  count = data.coder_workspace.me.start_count + 1
  input = count.index
}
